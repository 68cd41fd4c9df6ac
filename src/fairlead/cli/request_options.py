"""Options and files that describe a request, for run, fit and preview."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter
from pydantic import ValidationError

from fairlead.errors import RequestRejected, Unreadable
from fairlead.files import yamls
from fairlead.files.documents import SUFFIXES
from fairlead.model.names import NAME
from fairlead.model.parsing import violations_of
from fairlead.model.plans import Violation
from fairlead.model.requests import RunRequest

Words = Annotated[Sequence[str], Parameter(negative=(), show_default=False)]
Amount = Annotated[str | None, Parameter(show_default=False)]
Arguments = Annotated[str, Parameter(show_default=False, help="Arguments for the program, after `--`.")]


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
