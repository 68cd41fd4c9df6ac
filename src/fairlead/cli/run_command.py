"""`fairlead run`: submit a program, follow its log and exit with its exit code.

Also the options and files that describe a request, for run, fit and preview.
"""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic import ValidationError

from fairlead.cli.clusters import PROJECTS
from fairlead.cli.objects import Json, Project
from fairlead.cli.output import write_log
from fairlead.cli.project_objects import DEFAULT, describe_created
from fairlead.errors import RequestRejected, Unreadable
from fairlead.files import yamls
from fairlead.files.documents import SUFFIXES
from fairlead.model.names import NAME
from fairlead.model.parsing import violations_of
from fairlead.model.plans import Violation
from fairlead.model.requests import RunRequest
from fairlead.model.runs import State
from fairlead.sdk import runs
from fairlead.sdk.functions import Function
from fairlead.sdk.plan_changes import PlanChanged
from fairlead.sdk.projects import project as open_project
from fairlead.sdk.runs import Run

Words = Annotated[Sequence[str], Parameter(negative=(), show_default=False)]
Amount = Annotated[str | None, Parameter(show_default=False)]
Arguments = Annotated[str, Parameter(show_default=False, help="Arguments for the program, after `--`.")]

SAVE_PLAN = "`--preview --json > plan.json`"
INTERRUPTED = 130  # a shell's exit code after Ctrl-C: 128 + SIGINT


# Values remain text: the request model parses them and reports all mistakes with their paths.
@dataclass(frozen=True)
class RequestOptions:
    """Request options. They override the file."""

    profile: Annotated[Amount, Parameter(name=["--profile", "-p"], help="The name of a compute resource.")] = None
    template: Annotated[Amount, Parameter(help="The name of a template.")] = None
    cpu: Annotated[Amount, Parameter(help="CPU request in cores, such as 8, 0.5 or 500m.")] = None
    cpu_limit: Annotated[Amount, Parameter(help="CPU limit.")] = None
    mem: Annotated[Amount, Parameter(help="Memory request, such as 32Gi.")] = None
    mem_limit: Annotated[Amount, Parameter(help="Memory limit. A run that exceeds it is killed.")] = None
    gpu: Annotated[Amount, Parameter(help="Number of GPUs.")] = None
    disk: Annotated[Amount, Parameter(help="Ephemeral disk, such as 10Gi.")] = None
    volume: Annotated[
        Words,
        Parameter(help="A volume: NAME:/PATH:SIZE for this run, shared/NAME:/PATH for a shared volume, or YAML."),
    ] = ()
    secret: Annotated[Words, Parameter(help="A secret to pass as an environment variable.")] = ()
    env: Annotated[
        Words,
        Parameter(name=["--env", "-e"], help="An environment variable: NAME=VALUE, or NAME to copy its current value."),
    ] = ()
    input: Annotated[
        Words,
        Parameter(
            name=["--input", "-i"],
            help="A function argument: NAME=VALUE. The value is JSON or text.",
        ),
    ] = ()
    file: Annotated[
        Path | None,
        Parameter(
            name=["--file", "-f"],
            show_default=False,
            help="A YAML file with a request. Options override it.",
        ),
    ] = None
    action: Annotated[Amount, Parameter(help="The action: job, serve or workspace. Default: job.")] = None
    idle_timeout: Annotated[Amount, Parameter(help="Stop an idle workspace after this time, such as 30m.")] = None
    deadline: Annotated[Amount, Parameter(help="Stop the run after this time, such as 90, 30m or 2h.")] = None
    retries: Annotated[Amount, Parameter(help="Number of retries after a failure.")] = None
    on_oom_grow: Annotated[
        Amount, Parameter(help="After an OOM kill, retry with the memory multiplied by this factor, such as 1.5.")
    ] = None
    on_oom_max: Annotated[Amount, Parameter(help="Memory cap for these retries, such as 64Gi.")] = None
    priority: Annotated[
        Amount, Parameter(help="Queue priority, -100 to 100. One point equals one hour of waiting.")
    ] = None
    schedule: Annotated[
        Amount, Parameter(help='Run on a schedule: a cron expression such as "0 6 * * *", or @daily.')
    ] = None
    timezone: Annotated[Amount, Parameter(help="The time zone of the schedule, such as Europe/Rome.")] = None
    missed: Annotated[
        Amount, Parameter(help="How to handle runs missed while the server was down: skip, once or all.")
    ] = None
    overlap: Annotated[Amount, Parameter(help="If the previous run is still active, allow or skip the new one.")] = None
    schedule_name: Annotated[Amount, Parameter(help="The name of the schedule. Default: the function name.")] = None
    name: Annotated[Amount, Parameter(help="The name of the function. Default: the file name.")] = None
    image: Annotated[Amount, Parameter(help="A container image to run instead of code.")] = None
    pull_policy: Annotated[Amount, Parameter(help="Image pull policy: Always, IfNotPresent or Never.")] = None
    pull_secret: Annotated[Words, Parameter(help="An image pull secret that contains a Docker config as JSON.")] = ()
    strict: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Fail instead of overriding your values.")
    ] = False

    @property
    def images(self) -> dict[str, Any]:
        """The image and its pull settings."""
        secrets = list(self.pull_secret) or None
        return {"image": self.image, "pull_policy": self.pull_policy, "pull_secrets": secrets}

    def to_fields(self, args: Sequence[str] = (), base: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The request's fields without its function: from a base request, then the file, then options."""
        fields = {**(base or {}), **({} if self.file is None else read_file(self.file))}
        amounts = {
            "cpu": _amount(self.cpu, self.cpu_limit),
            "mem": _amount(self.mem, self.mem_limit),
            "gpu": self.gpu,
            "disk": self.disk,
        }
        resources = {name: amount for name, amount in amounts.items() if amount is not None}
        # Options are added to lists and mappings from the file, and replace other values.
        overrides = {
            "profile": self.profile,
            "template": self.template,
            "resources": {**_mapping_of(fields, "resources"), **resources},
            "volumes": [*_list_of(fields, "volumes"), *map(_parse_volume, self.volume)],
            "secrets": [*_list_of(fields, "secrets"), *self.secret],
            "envs": {**_envs_of(fields), **dict(map(_parse_env, self.env))},
            "inputs": {**_mapping_of(fields, "inputs"), **dict(map(_parse_input, self.input))},
            "args": list(args),
            "action": self.action,
            "idle_timeout": self.idle_timeout,
            "deadline": self.deadline,
            "retries": self.retries,
            "on_oom": {**_mapping_of(fields, "on_oom"), **_on_oom(self.on_oom_grow, self.on_oom_max)},
            "priority": self.priority,
            "schedule": self._schedule(fields),
            "strict": self.strict,
        }
        # Options that are not given override nothing.
        return fields | {key: value for key, value in overrides.items() if value not in (None, [], {}, (), False)}

    def _schedule(self, fields: dict[str, Any]) -> dict[str, Any] | None:
        overrides = {
            "cron": self.schedule,
            "timezone": self.timezone,
            "missed": self.missed,
            "overlap": self.overlap,
        }
        overrides = {
            part: value for part, value in {**overrides, "name": self.schedule_name}.items() if value is not None
        }
        schedule = fields.get("schedule")
        # A file may contain just the cron expression.
        before = {"cron": schedule} if isinstance(schedule, str) else dict(schedule or {})
        if overrides and "cron" not in {**before, **overrides}:
            option = f"--{next(iter(overrides)).replace('name', 'schedule-name')}"
            raise Unreadable(f"{option} requires a schedule", 'add --schedule "0 6 * * *"')
        return {**before, **overrides} if overrides else None


WithRequestOptions = Annotated[RequestOptions | None, Parameter(name="*")]


def name_program(program: str) -> str:
    """The function name derived from a program such as `train.py:main`."""
    # The path is resolved, because `.` has no name.
    stem = Path(program.partition(":")[0]).resolve().stem.replace("_", "-")
    return stem if NAME.matches(stem) else "run"


def read_file(file: Path) -> dict[str, Any]:
    """Load the fields of a request file that must not contain a function."""
    fields = read_mapping(file)
    if "function" in fields:
        message = f"{file} sets function, but the command line already sets it"
        raise Unreadable(message, f"remove it from the file, or run the file: fairlead run {file}")
    return fields


def is_request(program: str | None, options: RequestOptions) -> bool:
    """Whether a program argument is a YAML file with a request."""
    # With --image, the argument is the name of the function and may have any suffix.
    return program is not None and options.image is None and program.lower().endswith(SUFFIXES)


def parse_request(fields: Mapping[str, Any], location: str | None) -> RunRequest:
    """Parse a request. Raise `RequestRejected` with the location of each violation."""
    try:
        return RunRequest.model_validate(fields)
    except ValidationError as error:
        raise RequestRejected(
            [replace(violation, location=location) for violation in violations_of(error, RunRequest)]
        ) from None


def read_mapping(file: Path) -> dict[str, Any]:
    """Load a YAML file that contains one mapping."""
    documents = yamls.load_file(file)
    if isinstance(documents, Violation):
        raise RequestRejected([documents])
    if len(documents) != 1 or not isinstance(documents[0], dict):
        raise Unreadable(f"{file} must contain one mapping", "write request fields, such as resources and volumes")
    # null means the same as a missing field.
    return {name: value for name, value in documents[0].items() if value is not None}


def _amount(request: str | None, limit: str | None) -> str | dict[str, str] | None:
    # With only a limit, the request is left to the template, the compute resource or the policies.
    if limit is None:
        return request
    return {"limits": limit} | ({"requests": request} if request is not None else {})


def _on_oom(grow: str | None, most: str | None) -> dict[str, str]:
    on_oom = {"grow": grow, "max": most}
    return {part: value for part, value in on_oom.items() if value is not None}


def _mapping_of(fields: dict[str, Any], name: str) -> Mapping[str, Any]:
    # Removed, because the caller merges it with options.
    value = fields.pop(name, {})
    if not isinstance(value, Mapping):
        raise Unreadable(f"{name} is not a mapping", f"write {name}: {{NAME: value}}")
    return value


def _list_of(fields: dict[str, Any], name: str) -> Sequence[Any]:
    value = fields.pop(name, [])
    if not isinstance(value, list):
        raise Unreadable(f"{name} is not a list", f"write {name}: [...]")
    return value


def _envs_of(fields: dict[str, Any]) -> Mapping[str, Any]:
    envs = fields.pop("envs", {})
    if isinstance(envs, Mapping):
        return envs
    if not isinstance(envs, list) or not all(
        isinstance(env, Mapping) and {"name", "value"} <= set(env) for env in envs
    ):
        raise Unreadable("envs is neither a mapping nor a list of name-value pairs", "write envs: {NAME: value}")
    return {env["name"]: env["value"] for env in envs}


def _parse_volume(text: str) -> dict[str, Any]:
    # The short forms cover the common volume types. Others are written in YAML, as in a file.
    if text.lstrip().startswith("{"):
        documents = yamls.parse_documents(text.encode())
        if len(documents) != 1 or not isinstance(documents[0], dict):
            raise Unreadable(f"{text!r} is not a mapping", "write {volume_type: ..., name: ..., mount_path: ...}")
        return dict(documents[0])
    parts = text.split(":")
    kind, _, shared = parts[0].partition("/")
    if kind == "shared" and shared and len(parts) == 2:
        spec = {"claim_name": shared}
        return {"volume_type": "shared_volume", "name": shared, "mount_path": parts[1], "spec": spec}
    if len(parts) != 3:
        hint = "use NAME:/PATH:SIZE, such as data:/data:10Gi, or shared/NAME:/PATH"
        raise Unreadable(f"invalid volume {text!r}", hint)
    name, path, size = parts
    spec = {"size": size}
    return {"volume_type": "persistent_volume_claim", "name": name, "mount_path": path, "spec": spec}


def _parse_env(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if equals:
        return name, value
    # NAME without a value copies the variable, as with docker run --env.
    if name not in os.environ:
        raise Unreadable(f"variable {name} is not set", f"set its value: --env {name}=VALUE")
    return name, os.environ[name]


def _parse_input(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise Unreadable(f"invalid input {text!r}", "use a name and a value, such as --input epochs=3")
    try:
        # epochs=3 is read as a number and name=oak as text, without any shell quoting.
        return name, json.loads(value)
    except ValueError:
        return name, value


def run(
    program: Annotated[str | None, Parameter(show_default=False)] = None,
    /,
    *args: Arguments,
    options: WithRequestOptions = None,
    function: Annotated[str | None, Parameter(show_default=False)] = None,
    project: Project = DEFAULT,
    detach: Annotated[bool, Parameter(name=["--detach", "-d"], negative=(), show_default=False)] = False,
    preview: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    plan: Annotated[Path | None, Parameter(show_default=False)] = None,
    as_json: Annotated[
        Json, Parameter(help="Print the run and its result as JSON at the end. Logs go to stderr.")
    ] = False,
) -> int:
    """Run a program with the requested compute, follow its log, and exit with its exit code.

    Parameters
    ----------
    program
        A file or folder with Python code, optionally with :function, or a YAML file with a request.
        With --image, the name of the function. Optional for a workspace.
    function
        A function stored in the project, instead of a program.
    detach
        Print the run ID and exit without waiting.
    preview
        Show the plan without submitting the run.
    plan
        Submit exactly the plan in this file, which `--preview --json` printed for the same command.
    """
    options = options or RequestOptions()
    if function is not None:  # then all positional arguments are passed to the function
        args, program = (*([] if program is None else [program]), *args), None
    # A handler is called with inputs. Only scripts and containers have arguments.
    if args and options.image is None and ":" in (program or ""):
        message = f"functions take no command-line arguments, found {' '.join(args)}"
        raise Unreadable(message, "use --input NAME=VALUE, or run the file without a function")
    fields: dict[str, Any]
    if program is not None and is_request(program, options):
        function_fields, fields = _read_request(Path(program), args, options)
    else:
        fields = options.to_fields(args)
        function_fields = _name_function(program, function, options, action=fields.get("action"))
    PROJECTS.require(project or DEFAULT)  # do not create a project because of a typo
    target = open_project(project or DEFAULT).function(**function_fields)
    if plan is not None and (preview or "schedule" in fields):
        raise Unreadable(f"--plan cannot be used with {'--preview' if preview else 'a schedule'}", "remove one of them")
    if preview:
        planned = target.preview(**fields)
        print(json.dumps(planned.data, indent=2) if as_json else planned)
        return 1 if planned.violations else 0
    if "schedule" in fields:
        schedule = target.run(**fields)
        print(json.dumps(schedule.data, indent=2) if as_json else describe_created(schedule))
        return 0
    started = target.run(**fields) if plan is None else _submit_plan(plan, target, fields)
    if detach:
        print(json.dumps(started.data, indent=2) if as_json else started.id)
        return 0
    return follow(started, as_json=as_json)


def _submit_plan(file: Path, function: Function, fields: Mapping[str, Any]) -> Run:
    """Submit the plan that `--preview --json` printed. Raise `PlanChanged` if the plan has changed since."""
    preview = function.load_preview(_read_plan(file), **fields)
    try:
        return preview.submit()
    except PlanChanged as error:
        hint = f"to submit the new plan, save it with {SAVE_PLAN}"
        raise PlanChanged(error.changes, error.preview, hint) from None


def _read_plan(file: Path) -> dict[str, Any]:
    try:
        plan: dict[str, Any] = json.loads(file.read_bytes())
        runs.read_plan(plan)
    except OSError as error:
        message = f"{file} cannot be read: {(error.strerror or str(error)).lower()}"
        raise Unreadable(message, "check the path and its permissions") from error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        raise Unreadable(f"{file} does not contain a plan", f"write it with {SAVE_PLAN}") from error
    return plan


def follow(run: Run, *, as_json: bool = False) -> int:
    """Follow a run until it ends. Return its exit code."""
    try:
        run.wait_for_start()
        _print_url(run)
        # Start at 0, because the first attempt may fail before its log is read. With --json, stdout has only the JSON.
        for line in run.read_logs(follow=True, cursor=0):
            write_log(line.data, to_stderr=as_json or line.stream != "stdout")
        run.wait(progress=False)
    # Ctrl-C only stops following the log: a run that takes hours should not end by accident.
    except KeyboardInterrupt:
        print(f"\nrun {run.id} is still running\n  -> fairlead runs logs --follow {run.id}", file=sys.stderr)
        print(f"  -> fairlead runs stop {run.id}", file=sys.stderr)
        return INTERRUPTED
    return _print_outcome(run, as_json=as_json)


def _print_url(run: Run) -> None:
    """Print the URL of a served run as soon as it is ready."""
    if run.data["action"] != "job" and run.data["active"]:
        print(f"{run.function} {run.id[-8:]}: ready at {run.url}", file=sys.stderr)
        print(f"  -> fairlead open {run.id[-8:]}", file=sys.stderr)


def _print_outcome(run: Run, *, as_json: bool) -> int:
    state, result = run.state, None
    if state is State.COMPLETED:
        result = run.result
    if as_json:
        text = repr(result) if isinstance(result, bytes) else result
        print(json.dumps({**run.data, "result": text}, indent=2))
    else:
        took = runs.show_duration(run.data)
        ending = f"{state}" + (f" in {took}" if took else "")
        ending += f": {run.message}" if state is not State.COMPLETED else ""
        # Printed to stderr, because stdout contains the program's output.
        print(f"{run.function} {run.id[-8:]}: {ending}", file=sys.stderr)
        if result is not None:
            text = f"{len(result)} bytes" if isinstance(result, bytes) else json.dumps(result)
            print(f"result: {text}", file=sys.stderr)
    # A run that was stopped or never started has no exit code, or exit code 0.
    return 0 if state is State.COMPLETED else run.exit_code or 1


def _name_function(program: str | None, stored: str | None, options: RequestOptions, *, action: Any) -> dict[str, Any]:
    """Build the function of the request: a program, an image, a stored function, or none for a workspace."""
    if stored is not None:
        rejected = [
            f"--{name.replace('_', '-')}" for name, value in {**options.images, "name": options.name}.items() if value
        ]
        if rejected:
            message = f"{' '.join(rejected)} cannot change the stored function {stored}"
            raise Unreadable(message, f"remove {' '.join(rejected)}, or use a program instead of --function")
        return {"name": stored}
    if program is None:
        if action != "workspace":
            hint = "specify a file, or a stored function with --function"
            raise Unreadable("no program or function given", hint)
        # With an image, the kind would otherwise be container, which has no JupyterLab.
        return {"name": options.name or "workspace", "kind": "python", **options.images}
    if options.image is not None:
        return {"name": options.name or program, **options.images}
    source, _, handler = program.partition(":")
    return {
        "name": options.name or name_program(program),
        "source": source,
        "handler": handler or None,
        **options.images,
    }


def _read_request(file: Path, args: Sequence[str], options: RequestOptions) -> tuple[dict[str, Any], dict[str, Any]]:
    """Load the function and the other fields of a request file. The code is next to the file."""
    mapping = read_mapping(file)
    given, fields = mapping.pop("function", None), options.to_fields(args, mapping)
    if given is None:
        hint = f"add a function to the file, or specify a program: fairlead run train.py -f {file}"
        raise Unreadable(f"{file} has no function", hint)
    function = {"name": given} if isinstance(given, str) else given
    if isinstance(function, dict):
        function = {"name": name_program(str(file)), **function, **({"name": options.name} if options.name else {})}
    request = parse_request({**fields, "function": function}, str(file))
    # project.function() would guess the kind from other fields. Use the kind of the parsed request, as in a preview.
    if function.keys() != {"name"}:  # a name alone refers to a stored function
        function["kind"] = request.function.kind
    if "source" in function and "code" not in function:  # with a digest, the server already has the code
        function["source"] = str(file.parent / function["source"])
    return function, fields
