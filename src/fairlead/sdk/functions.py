"""A project's functions: code, commands or images that can be run."""

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
from fairlead.sdk.packing import PackedCode
from fairlead.sdk.plans import Preview
from fairlead.sdk.runs import Run
from fairlead.sdk.schedules import Schedule

Amount = str | int | float | Mapping[str, Any]
Pairs = Sequence[Mapping[str, Any]] | Mapping[str, Any]


class RunParameters(TypedDict, total=False):
    """The parameters of a run, other than the function."""

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
    """A function in a project. Calling it executes the decorated Python function locally."""

    def __init__(
        self,
        api: ApiClient,
        project: str,
        fields: Mapping[str, Any],
        code: Callable[[str], PackedCode] | None = None,
        calls: Callable[..., Any] | None = None,
    ) -> None:
        self._api, self.project, self._fields = api, project, dict(fields)
        self._pack, self._sent = code, ""  # the digest of code that the server is known to have
        self._callable = calls
        self.name: str = self._fields["name"]

    @overload
    def run(
        self, action: Action = "job", *, schedule: str | Mapping[str, Any], **parameters: Unpack[RunParameters]
    ) -> Schedule: ...
    @overload
    def run(self, action: Action = "job", **parameters: Unpack[RunParameters]) -> Run: ...
    def run(
        self,
        action: Action = "job",
        *,
        schedule: str | Mapping[str, Any] | None = None,
        **parameters: Unpack[RunParameters],
    ) -> Run | Schedule:
        """Submit a run and return it without waiting for it to start.

        With `schedule`, a cron expression such as "0 6 * * *", create a schedule instead and return it.
        """
        if schedule is not None:
            return Schedule(self._api, self._submit("schedules", action, {**parameters, "schedule": schedule}))
        return Run(self._api, self._submit("runs", action, parameters))

    def preview(self, action: Action = "job", **parameters: Unpack[RunParameters]) -> Preview:
        """Plan a run without creating it: all values with their sources, and whether it fits."""
        request = self._request(action, parameters)
        data = self._api.post(path_of("projects", self.project, "runs", "preview"), request)

        def submit(suggestion: Suggestion) -> Run:
            # Code belongs to a project, so the other project needs it too.
            if suggestion.project is not None:
                self._send_code(action, suggestion.project)
            place = path_of("projects", suggestion.project or self.project, "runs")
            return Run(self._api, self._api.post(place, merge(request, suggestion.change)))

        return Preview(f"{action} {self.name} in project {self.project}", data, submit)

    def _submit(self, noun: str, action: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        path = path_of("projects", self.project, noun)
        try:
            data: dict[str, Any] = self._api.post(path, self._request(action, parameters))
        except RequestRejected as error:
            # This is the only violation that a second attempt can fix. Any other needs action from the user.
            if [violation.rule for violation in error.violations] != ["unknown_code"]:
                raise
            self._sent = ""  # the server has deleted the code since the upload
            data = self._api.post(path, self._request(action, parameters))
        return data

    def __call__(self, *args: Any, **inputs: Any) -> Any:
        """Call the Python function in this process."""
        if self._callable is None:
            raise TypeError(f"function {self.name} does not wrap a Python function: use run()")
        return self._callable(*args, **inputs)

    def _request(self, action: str, parameters: Mapping[str, Any]) -> dict[str, Any]:
        """Build and validate the request before it is sent."""
        # A common mistake: train.run(epochs=3) or train.run(3), as if the function were called.
        misplaced = sorted((set(parameters) - set(RunParameters.__annotations__)) & set(self._parameters))
        if misplaced or type(action) is not str:
            hint = f"inputs={{{', '.join(f'{name!r}: ...' for name in misplaced or self._parameters)}}}"
            raise Unreadable("function arguments were passed to run()", f"pass them as {hint}")
        # The upload comes first, because the request contains the digest.
        function = {**self._fields, **self._send_code(action)}
        try:
            # The server validates with the same model, so mistakes can be reported without a request.
            request = RunRequest.model_validate({"function": function, "action": action, **parameters})
        except ValidationError as error:
            raise RequestRejected(violations_of(error, RunRequest)) from None
        # to_data() omits the plan token, because stored requests must not contain it.
        token = {} if request.plan_token is None else {"plan_token": request.plan_token}
        return request.to_data() | token

    @property
    def _parameters(self) -> list[str]:
        return [] if self._callable is None else list(inspect.signature(self._callable).parameters)

    def _send_code(self, action: str, project: str | None = None) -> dict[str, Any]:
        """Upload the current code unless the server already has it."""
        if self._pack is None:
            return {}
        packed = self._pack(action)
        path = path_of("projects", project or self.project, "code", packed.digest)
        if self._sent != packed.digest or project is not None:
            try:
                # Checking first costs one small request and usually saves the upload, because most runs reuse code.
                self._api.get(path)
            except NotFound:
                self._api.put_bytes(path, packed.archive)
            # `_sent` applies only to this function's own project.
            self._sent = packed.digest if project is None else self._sent
        handler = {} if packed.handler is None else {"handler": packed.handler}
        return {"source": packed.source, "code": packed.digest, **handler}

    def __repr__(self) -> str:
        return f"<function {self.name} of project {self.project}>"


def pack_source(source: str, handler: str | None, *, command: bool) -> Callable[[str], PackedCode]:
    """A function that packs a file or folder again for each run, so that later edits are included."""
    path = Path(source)

    def pack(action: str) -> PackedCode:
        if not command and action != "workspace":  # a workspace opens the files in JupyterLab and calls no handler
            packing.check_handler(path, handler)
        return packing.pack_path(path)

    return pack
