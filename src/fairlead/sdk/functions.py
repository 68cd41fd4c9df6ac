"""Functions: code or an image with a name, and the runs of it."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

from pydantic import ValidationError

from fairlead.errors import NotFound, RequestRejected, Unreadable
from fairlead.model.parsing import violations_of
from fairlead.model.plans import Suggestion
from fairlead.model.requests import RunRequest, merge
from fairlead.sdk import packing
from fairlead.sdk.api_client import ApiClient, path_of
from fairlead.sdk.packing import Packed
from fairlead.sdk.plans import Preview
from fairlead.sdk.runs import Run
from fairlead.sdk.schedules import Schedule

Amount = str | int | float | Mapping[str, Any]
Pairs = Sequence[Mapping[str, Any]] | Mapping[str, Any]


class Asked(TypedDict, total=False):
    """What can be asked for in a run, beside the function itself."""

    profile: str
    template: str
    inputs: Mapping[str, Any]
    args: Sequence[str | int | float] | str
    resources: Mapping[str, Any] | Sequence[Mapping[str, Any]]
    volumes: Sequence[Mapping[str, Any]]
    secrets: Sequence[str]
    envs: Pairs
    node_selector: Pairs
    tolerations: Sequence[Mapping[str, Any]]
    affinity: Mapping[str, Any]
    fs_group: int | str
    run_as_user: int | str
    run_as_group: int | str
    runtime_class: str
    priority_class: str
    replicas: int
    deadline: int | str
    idle_timeout: int | str
    retries: int
    on_oom: Mapping[str, Any]
    priority: int
    strict: bool
    plan_token: str


Action = Literal["job", "serve", "workspace"]


class Function:
    """A function of a project. Calling it calls the Python function that it was made of, here."""

    def __init__(
        self,
        api: ApiClient,
        project: str,
        said: Mapping[str, Any],
        code: Callable[[str], Packed] | None = None,
        calls: Callable[..., Any] | None = None,
    ) -> None:
        self._api, self.project, self._said = api, project, dict(said)
        self._pack, self._sent = code, ""
        self._calls = calls
        self.name: str = self._said["name"]

    @overload
    def run(self, action: Action = "job", *, schedule: str | Mapping[str, Any], **asked: Unpack[Asked]) -> Schedule: ...
    @overload
    def run(self, action: Action = "job", **asked: Unpack[Asked]) -> Run: ...
    def run(
        self, action: Action = "job", *, schedule: str | Mapping[str, Any] | None = None, **asked: Unpack[Asked]
    ) -> Run | Schedule:
        """Submit a run of it; return as soon as the server has kept it, before it starts.

        With a schedule, such as "0 6 * * *", it is submitted at each of its times, and what is returned is that.
        """
        if schedule is not None:
            return Schedule(self._api, self._submit("schedules", action, {**asked, "schedule": schedule}))
        return Run(self._api, self._submit("runs", action, asked))

    def preview(self, action: Action = "job", **asked: Unpack[Asked]) -> Preview:
        """What would run, with which values and why. No run is created."""
        request = self._request(action, asked)
        data = self._api.post(path_of("projects", self.project, "runs", "preview"), request)

        def submit(way: Suggestion) -> Run:
            if way.project is not None:
                self._send_code(action, way.project)
            place = path_of("projects", way.project or self.project, "runs")
            return Run(self._api, self._api.post(place, merge(request, way.change)))

        return Preview(f"{action} {self.name} in project {self.project}", data, submit)

    def _submit(self, noun: str, action: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        path = path_of("projects", self.project, noun)
        try:
            data: dict[str, Any] = self._api.post(path, self._request(action, asked))
        except RequestRejected as error:
            if [violation.rule for violation in error.violations] != ["unknown_code"]:
                raise
            self._sent = ""  # it was forgotten since it was sent
            data = self._api.post(path, self._request(action, asked))
        return data

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        """Call the Python function itself, in this process."""
        if self._calls is None:
            raise TypeError(f"function {self.name} was not made of a Python function: use run()")
        return self._calls(*args, **inputs)

    def _request(self, action: str, asked: Mapping[str, Any]) -> dict[str, Any]:
        """What is sent: checked here already, as far as it can be told without the server."""
        misplaced = sorted((set(asked) - set(Asked.__annotations__)) & set(self._parameters))
        if misplaced or type(action) is not str:
            hint = f"inputs={{{', '.join(f'{name!r}: ...' for name in misplaced or self._parameters)}}}"
            raise Unreadable("arguments of the function stand where the run is asked for", f"give them as {hint}")
        said = {**self._said, **self._send_code(action)}
        try:
            request = RunRequest.model_validate({"function": said, "action": action, **asked})
        except ValidationError as error:
            raise RequestRejected(violations_of(error, RunRequest)) from None
        token = {} if request.plan_token is None else {"plan_token": request.plan_token}
        return request.to_data() | token

    @property
    def _parameters(self) -> list[str]:
        return [] if self._calls is None else list(inspect.signature(self._calls).parameters)

    def _send_code(self, action: str, project: str | None = None) -> dict[str, Any]:
        """See to it that the server has the code as it is now, in this project or another."""
        if self._pack is None:
            return {}
        packed = self._pack(action)
        path = path_of("projects", project or self.project, "code", packed.digest)
        if self._sent != packed.digest or project is not None:
            try:
                self._api.get(path)
            except NotFound:
                self._api.put_bytes(path, packed.archive)
            self._sent = packed.digest if project is None else self._sent
        handler = {} if packed.handler is None else {"handler": packed.handler}
        return {"source": packed.source, "code": packed.digest, **handler}

    def __repr__(self) -> str:
        return f"<function {self.name} of project {self.project}>"


def pack_source(source: str, handler: str | None, *, command: bool) -> Callable[[str], Packed]:
    """How a file or folder is packed each time that it is run: as it is by then."""
    path = Path(source)

    def pack(action: str) -> Packed:
        if not command and action != "workspace":  # which JupyterLab opens as it is
            packing.check_handler(path, handler)
        return packing.pack_path(path)

    return pack
