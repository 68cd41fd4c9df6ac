"""A project's functions (code, commands or images that can be run) and schedules."""

import inspect
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, TypedDict, Unpack, overload

from pydantic import ValidationError

from fairlead.errors import NotFound, RequestRejected, Unreadable
from fairlead.model.parsing import violations_of
from fairlead.model.plans import Suggestion
from fairlead.model.requests import RunRequest, merge_patch
from fairlead.sdk.api_client import ApiClient, path_of
from fairlead.sdk.runs import Preview, PreviewActions, Run, Runs
from fairlead.source_code import PackedCode, check_code, pack_path

MAX_LISTED = 50

Amount = str | int | float | Mapping[str, Any]
Pairs = Sequence[Mapping[str, Any]] | Mapping[str, Any]

Action = Literal["job", "serve", "workspace"]


def pack_function(function: Callable[..., Any]) -> PackedCode:
    """Pickle a function with the local modules that it uses. The archive works only with this Python version."""
    from fairlead.sdk import pickling  # importing cloudpickle takes 25 ms, and only decorated functions need it

    return pickling.pack_function(function)


def check_handler(path: Path, handler: str | None) -> None:
    """Raise `Unreadable` if the source cannot be parsed or does not define the handler. Does not execute the source."""
    module, _, name = (handler or "").rpartition(":")
    file = _find_file(path, module, name)
    if file is None:
        return
    try:
        content = file.read_bytes()
    except OSError as error:
        message = f"{file} cannot be read: {(error.strerror or str(error)).lower()}"
        raise Unreadable(message, "check the path and its permissions") from error
    check_code(content, str(file), name)


def _find_file(path: Path, module: str, name: str) -> Path | None:
    """The file that must define the handler; None if the image contains it or it is not Python."""
    inside = path if path.is_dir() else path.parent
    if module and not (path.is_file() and path.stem == module):
        module_path = inside.joinpath(*module.split("."))
        # A module that is not in the folder may be installed in the image.
        return next(filter(Path.is_file, (module_path.with_suffix(".py"), module_path / "__init__.py")), None)
    if path.suffix == ".py" and path.is_file():
        return path
    if not path.exists():
        raise Unreadable(f"{path} does not exist", "use the path of a file or folder")
    if name:
        kind = "a folder" if path.is_dir() else "not a Python file"
        raise Unreadable(
            f"{path} is {kind}, but the handler {name!r} does not name a module", f"include the module: module:{name}"
        )
    if path.is_dir() and not (path / "__main__.py").is_file():
        hint = "set a handler such as train:main, or add __main__.py"
        raise Unreadable(f"{path} is a folder without __main__.py, and no handler is set", hint)
    return path / "__main__.py" if path.is_dir() else None


class ScheduleChanges(TypedDict, total=False):
    """The fields of a schedule that can be changed."""

    cron: str
    timezone: str
    missed: str
    overlap: str


class Schedule:
    """A schedule in a project, as of the server's last response."""

    def __init__(self, api: ApiClient, data: Mapping[str, Any]) -> None:
        self._api, self.data = api, dict(data)

    @property
    def name(self) -> str:
        """The name of the schedule."""
        return str(self.data["name"])

    @property
    def project(self) -> str:
        """The name of the project."""
        return str(self.data["scope"]).partition("/")[2]

    @property
    def paused(self) -> bool:
        """Whether the schedule is paused."""
        return bool(self.data["paused"])

    @property
    def next_at(self) -> datetime | None:
        """The time of the next run; None while paused."""
        return _parse_time(self.data["next_at"])

    @property
    def last_at(self) -> datetime | None:
        """The time at which the schedule was last due."""
        return _parse_time(self.data["last_at"])

    @property
    def last_run(self) -> Run | None:
        """The run that was submitted at `last_at`; None if the submission failed (see `last_problem`)."""
        run_id = self.data["last_run_id"]
        return None if run_id is None else Run(self._api, self._api.get(path_of("runs", run_id)))

    @property
    def last_problem(self) -> str | None:
        """Why no run was submitted at `last_at`."""
        problem: str | None = self.data["last_problem"]
        return problem

    def refresh(self) -> "Schedule":
        """Load the schedule from the server."""
        self.data = self._api.get(self._path())
        return self

    def change(self, **times: Unpack[ScheduleChanges]) -> "Schedule":
        """Change cron, timezone, missed or overlap."""
        self.data = self._api.patch(self._path(), dict(times))
        return self

    def pause(self) -> "Schedule":
        """Pause the schedule."""
        self.data = self._api.post(self._path("pause"), None)
        return self

    def resume(self) -> "Schedule":
        """Resume the schedule from its next due time."""
        self.data = self._api.post(self._path("resume"), None)
        return self

    def run(self) -> Run:
        """Submit a run now, without changing the schedule."""
        return Run(self._api, self._api.post(self._path("run"), None))

    def runs(self, *, limit: int = MAX_LISTED) -> Runs:
        """The runs of this schedule, newest first."""
        path = path_of("projects", self.project, "runs")
        records = self._api.list(path, schedule=self.name, limit=min(limit, 500))
        return Runs([Run(self._api, data) for _, data in zip(range(limit), records, strict=False)])

    def delete(self) -> None:
        """Delete the schedule, but not its runs."""
        self._api.delete(self._path())

    def _path(self, *further: str) -> str:
        return path_of("projects", self.project, "schedules", self.name, *further)

    def __repr__(self) -> str:
        when = "paused" if self.paused else f"next run at {self.data['next_at']}"
        return f"<schedule {self.name} of project {self.project}: {self.data['cron']}, {when}>"


def _parse_time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


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
        return self._preview(action, self._request(action, parameters))

    def load_preview(
        self, data: Mapping[str, Any], action: Action = "job", **parameters: Unpack[RunParameters]
    ) -> Preview:
        """Restore a preview from its `data`, to submit it in another process."""
        return self._restore(data, action, self._request(action, parameters))

    def _preview(self, action: str, request: Mapping[str, Any]) -> Preview:
        data = self._api.post(path_of("projects", self.project, "runs", "preview"), request)
        return self._restore(data, action, request)

    def _restore(self, data: Mapping[str, Any], action: str, request: Mapping[str, Any]) -> Preview:
        def apply(suggestion: Suggestion) -> Run:
            # Code belongs to a project, so the other project needs it too.
            if suggestion.project is not None:
                self._send_code(action, suggestion.project)
            place = path_of("projects", suggestion.project or self.project, "runs")
            return Run(self._api, self._api.post(place, merge_patch(request, suggestion.change)))

        def submit(token: str | None) -> Run:
            place = path_of("projects", self.project, "runs")
            return Run(self._api, self._api.post(place, {**request, "plan_token": token}))

        actions = PreviewActions(submit, apply, lambda: self._preview(action, request))
        return Preview(f"{action} {self.name} in project {self.project}", data, actions)

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
            check_handler(path, handler)
        return pack_path(path)

    return pack
