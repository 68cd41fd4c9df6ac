"""Projects: where functions, secrets and runs live. Here the SDK begins."""

import contextlib
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, overload

from fairlead.errors import Conflict, NotFound, Unreadable
from fairlead.model.oom_retries import RetryReason
from fairlead.model.requests import PullPolicy
from fairlead.sdk import api_client, packing
from fairlead.sdk.api_client import ApiClient, path_of
from fairlead.sdk.functions import Function, pack_source
from fairlead.sdk.runs import Run, Runs
from fairlead.sdk.schedules import Schedule

MOST_LISTED = 50


class Project:
    """A project on a server."""

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
        **said: Any,
    ) -> Function | Callable[[Callable[..., Any]], Function]:
        """A function from a file or folder, from a container image, or, as a decorator, from a Python function.

        With a name alone it is the function that the project keeps under it: as it was last written or run.
        """
        said = {key: value for key, value in said.items() if value is not None}
        if (callable(name) or name is None) and (source is not None or handler is not None or kind is not None):
            raise Unreadable("source, handler or kind is said, and no name", "project.function('train', source=...)")
        if callable(name):
            return self._decorate(name, said)
        if name is None:
            return lambda function: self._decorate(function, said)
        if source is None and "image" not in said and "command" not in said and kind is None:
            if handler is not None or said:
                message = f"function {name} has neither a source, nor an image, nor a command: there is nothing to run"
                raise Unreadable(message, "say source='train.py', or image=..., or decorate a Python function")
            self.api.get(path_of("projects", self.name, "functions", name))  # or it is told here what there is
            return Function(self.api, self.name, {"name": name})
        if kind is None and source is None and "image" in said and handler is None:
            kind = "container"
        said = {"name": name, **({"kind": kind} if kind else {}), **({"handler": handler} if handler else {}), **said}
        if source is not None and "code" in said:  # which the server has already
            return Function(self.api, self.name, {**said, "source": source})
        pack = None if source is None else pack_source(source, handler, command="command" in said)
        return Function(self.api, self.name, said, pack)

    def functions(self) -> list[str]:
        """The names of the functions that it keeps."""
        return [function["name"] for function in self.api.list(path_of("projects", self.name, "functions"))]

    def runs(self, *, limit: int = MOST_LISTED, **filters: Any) -> Runs:
        """Its runs, the newest first; filters are columns: state="failed", function="train"."""
        found = self.api.list(path_of("projects", self.name, "runs"), limit=min(limit, 500), **filters)
        return Runs([Run(self.api, data) for data in islice(found, limit)])

    def get_run(self, run_id: str) -> Run:
        """A run by its id."""
        return Run(self.api, self.api.get(path_of("runs", run_id)))

    def schedules(self) -> list[Schedule]:
        """Its schedules, by name."""
        found = self.api.list(path_of("projects", self.name, "schedules"))
        return [Schedule(self.api, data) for data in found]

    def schedule(self, name: str) -> Schedule:
        """A schedule by its name."""
        return Schedule(self.api, self.api.get(path_of("projects", self.name, "schedules", name)))

    def capacity(self) -> dict[str, Any]:
        """What is free where its runs are executed, and how many more of each compute resource fit there now."""
        found = self.api.get("/capacity", project=self.name)
        if not found:
            raise NotFound(f"project {self.name} is on no cluster", "move it below one")
        entry: dict[str, Any] = found[0]
        return entry

    def set_secret(self, name: str, value: str) -> None:
        """Keep a secret, which runs name and nobody reads again."""
        self.api.put(path_of("projects", self.name, "secrets", name), {"value": value})

    def delete_secret(self, name: str) -> None:
        """Forget a secret."""
        self.api.delete(path_of("projects", self.name, "secrets", name))

    def secrets(self) -> list[str]:
        """The names of its secrets."""
        return [secret["name"] for secret in self.api.list(path_of("projects", self.name, "secrets"))]

    def create_volume(self, name: str, size: str) -> None:
        """A volume that its runs may share, as `shared_volume`; one that is there stays as it is."""
        try:
            self.api.get(path_of("projects", self.name, "volumes", name))
        except NotFound:
            with contextlib.suppress(Conflict):
                self.api.post(path_of("projects", self.name, "volumes"), {"name": name, "size": size})

    def _decorate(self, function: Callable[..., Any], said: dict[str, Any]) -> Function:
        named = {"name": _name_of(function), **said}
        return Function(self.api, self.name, named, lambda _: packing.pack_function(function), function)

    def __repr__(self) -> str:
        return f"<project {self.name} at {self.api.url}>"


def project(name: str = "default") -> Project:
    """A project, which is made where it is not there yet. Where no server is configured, one is started for you."""
    api = api_client.find_api_client()
    try:
        api.get(path_of("projects", name))
    except NotFound:
        with contextlib.suppress(Conflict):  # somebody made it at the same time
            api.post("/projects", {"name": name})
    return Project(api, name)


def get_run(run_id: str) -> Run:
    """A run by its id, in whichever project it is."""
    api = api_client.find_api_client()
    return Run(api, api.get(path_of("runs", run_id)))


def _name_of(function: Callable[..., Any]) -> str:
    """What a Python function is called as a function of a project."""
    return getattr(function, "__name__", "function").strip("<>_").replace("_", "-").lower() or "function"
