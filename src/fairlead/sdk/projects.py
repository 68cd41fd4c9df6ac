"""Projects: the entry point to the SDK."""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, overload

from fairlead.errors import Conflict, NotFound, Unreadable
from fairlead.model.requests import PullPolicy, RetryReason
from fairlead.sdk import api_client
from fairlead.sdk.api_client import ApiClient, path_of
from fairlead.sdk.functions import Function, Schedule, pack_function, pack_source
from fairlead.sdk.runs import Run, Runs

MAX_LISTED = 50


class Project:
    """A project on a server, with its functions, runs, schedules, secrets and volumes."""

    def __init__(self, api: ApiClient, name: str) -> None:
        self.api, self.name = api, name

    @overload
    def function(self, name: Callable[..., Any], /) -> Function: ...
    @overload
    def function(
        self,
        name: str,
        *,
        source: str | None = ...,
        handler: str | None = ...,
        image: str | None = ...,
        pull_policy: PullPolicy | None = ...,
        pull_secrets: Sequence[str] | None = ...,
        command: Sequence[str] | str | None = ...,
        args: Sequence[str] | str | None = ...,
        port: int | None = ...,
        retry_on: Sequence[RetryReason] | None = ...,
        kind: str | None = ...,
    ) -> Function: ...
    @overload
    def function(
        self,
        *,
        image: str | None = ...,
        pull_policy: PullPolicy | None = ...,
        pull_secrets: Sequence[str] | None = ...,
        retry_on: Sequence[RetryReason] | None = ...,
    ) -> Callable[[Callable[..., Any]], Function]: ...
    def function(
        self,
        name: str | Callable[..., Any] | None = None,
        *,
        source: str | None = None,
        handler: str | None = None,
        kind: str | None = None,
        **fields: Any,
    ) -> Function | Callable[[Callable[..., Any]], Function]:
        """Define a function from a file, a folder or a container image, or decorate a Python function.

        With only a name, return the stored function with that name, as it was last saved or run.
        """
        fields = {key: value for key, value in fields.items() if value is not None}
        if (callable(name) or name is None) and (source is not None or handler is not None or kind is not None):
            raise Unreadable(
                "source, handler or kind is set without a name", "write project.function('train', source=...)"
            )
        if callable(name):
            return self._decorate(name, fields)
        if name is None:
            return lambda function: self._decorate(function, fields)
        if source is None and "image" not in fields and "command" not in fields and kind is None:
            if handler is not None or fields:
                message = f"function {name} has no source, image or command"
                raise Unreadable(message, "set source='train.py' or image=..., or decorate a Python function")
            self.api.get(
                path_of("projects", self.name, "functions", name)
            )  # raises NotFound with similar names if it does not exist
            return Function(self.api, self.name, {"name": name})
        # An image without code is a program in itself. With a handler or source, it is the environment for Python code.
        if kind is None and source is None and "image" in fields and handler is None:
            kind = "container"
        fields = {
            "name": name,
            **({"kind": kind} if kind else {}),
            **({"handler": handler} if handler else {}),
            **fields,
        }
        if source is not None and "code" in fields:  # the server already has the code
            return Function(self.api, self.name, {**fields, "source": source})
        pack = None if source is None else pack_source(source, handler, command="command" in fields)
        return Function(self.api, self.name, fields, pack)

    def functions(self) -> list[str]:
        """The names of the stored functions."""
        return [function["name"] for function in self.api.list(path_of("projects", self.name, "functions"))]

    def runs(self, *, limit: int = MAX_LISTED, **filters: Any) -> Runs:
        """The project's runs, newest first. Filters are column names: state="failed", function="train"."""
        # The server's maximum page size is 500, so more runs need several requests.
        records = self.api.list(path_of("projects", self.name, "runs"), limit=min(limit, 500), **filters)
        return Runs([Run(self.api, data) for data in islice(records, limit)])

    def get_run(self, run_id: str) -> Run:
        """Load a run by ID."""
        return Run(self.api, self.api.get(path_of("runs", run_id)))

    def schedules(self) -> list[Schedule]:
        """The project's schedules, sorted by name."""
        records = self.api.list(path_of("projects", self.name, "schedules"))
        return [Schedule(self.api, data) for data in records]

    def schedule(self, name: str) -> Schedule:
        """Load a schedule by name."""
        return Schedule(self.api, self.api.get(path_of("projects", self.name, "schedules", name)))

    def capacity(self) -> dict[str, Any]:
        """The capacity of the project's cluster, and how many more runs fit now for each compute resource."""
        clusters = self.api.get("/capacity", project=self.name)
        if not clusters:
            raise NotFound(f"project {self.name} is not in a cluster", "move it to a cluster")
        entry: dict[str, Any] = clusters[0]
        return entry

    def set_secret(self, name: str, value: str) -> None:
        """Create or replace a secret. Its value cannot be read back."""
        self.api.put(path_of("projects", self.name, "secrets", name), {"value": value})

    def delete_secret(self, name: str) -> None:
        """Delete a secret."""
        self.api.delete(path_of("projects", self.name, "secrets", name))

    def secrets(self) -> list[str]:
        """The names of the project's secrets."""
        return [secret["name"] for secret in self.api.list(path_of("projects", self.name, "secrets"))]

    def create_volume(self, name: str, size: str) -> None:
        """Create a volume that runs can mount as `shared_volume`. Leaves an existing volume unchanged."""
        try:
            self.api.get(path_of("projects", self.name, "volumes", name))
        except NotFound:
            with contextlib.suppress(Conflict):
                self.api.post(path_of("projects", self.name, "volumes"), {"name": name, "size": size})

    def _decorate(self, function: Callable[..., Any], fields: dict[str, Any]) -> Function:
        named = {"name": _name_of(function), **fields}
        return Function(self.api, self.name, named, lambda _: pack_function(function), function)

    def __repr__(self) -> str:
        return f"<project {self.name} at {self.api.url}>"


def project(name: str = "default", *, cluster: str | None = None, department: str | None = None) -> Project:
    """Open a project, and create it if it does not exist. Starts a local server if none is configured.

    A new project is created in the given cluster or department, otherwise in the platform's default cluster. Raises
    `Conflict` if the project exists elsewhere.
    """
    if cluster is not None and department is not None:
        raise Unreadable("cluster and department are both set", "set only department, which is in one cluster")
    parent = f"department/{department}" if department is not None else cluster and f"cluster/{cluster}"
    api = api_client.find_api_client()
    try:
        record = api.get(path_of("projects", name))
    except NotFound:
        record = _create(api, name, parent)
    if parent is not None and parent not in _list_ancestors(api, record):
        message = f"project {name} is in {record['parent']}, not in {parent}"
        raise Conflict(message, f"omit cluster and department, or move it: fairlead projects move {name} {parent}")
    return Project(api, name)


def get_run(run_id: str) -> Run:
    """Load a run by ID, from any project."""
    api = api_client.find_api_client()
    return Run(api, api.get(path_of("runs", run_id)))


def _create(api: ApiClient, name: str, parent: str | None) -> dict[str, Any]:
    """Create a project. Return the existing one if it was created concurrently."""
    record: dict[str, Any]
    try:
        record = api.post("/projects", {"name": name} if parent is None else {"name": name, "parent": parent})
    except Conflict as taken:
        try:
            record = api.get(path_of("projects", name))
        except NotFound:  # it exists, but the caller cannot see it
            raise taken from None
    return record


def _list_ancestors(api: ApiClient, record: dict[str, Any]) -> Iterator[str]:
    """The scopes that contain a scope, from its parent to the cluster."""
    while (parent := record["parent"]) != "platform":
        yield parent
        kind, _, name = parent.partition("/")
        record = api.get(path_of(f"{kind}s", name))


def _name_of(function: Callable[..., Any]) -> str:
    """The function name for a Python function."""
    # The CLI names files the same way: train_model becomes train-model.
    return getattr(function, "__name__", "function").strip("<>_").replace("_", "-").lower() or "function"
