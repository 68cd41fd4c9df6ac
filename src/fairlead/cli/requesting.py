"""What commands take that are about a request: the program, and what is asked for it by options and a file."""

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
from fairlead.files.documents import ENDINGS
from fairlead.model.names import NAME
from fairlead.model.parsing import violations_of
from fairlead.model.plans import Violation
from fairlead.model.requests import RunRequest

Words = Annotated[Sequence[str], Parameter(negative=(), show_default=False)]
Amount = Annotated[str | None, Parameter(show_default=False)]
Arguments = Annotated[str, Parameter(show_default=False, help="Arguments of the program, after `--`.")]


@dataclass(frozen=True)
class Wanted:
    """What is asked for; what an option says, it says in place of the file."""

    profile: Annotated[Amount, Parameter(name=["--profile", "-p"], help="A compute resource, by name.")] = None
    template: Annotated[Amount, Parameter(help="A template to start from, by name.")] = None
    cpu: Annotated[Amount, Parameter(help="Cores: 8, 0.5 or 500m.")] = None
    cpu_limit: Annotated[Amount, Parameter(help="The most cores that it may use.")] = None
    mem: Annotated[Amount, Parameter(help="Memory: 32Gi.")] = None
    mem_limit: Annotated[Amount, Parameter(help="The most memory that it may use, over which it is ended.")] = None
    gpu: Annotated[Amount, Parameter(help="GPUs: 1.")] = None
    disk: Annotated[Amount, Parameter(help="Scratch space: 10Gi.")] = None
    volume: Annotated[
        Words,
        Parameter(
            help="A volume: NAME:/PATH:SIZE for one of this run, shared/NAME:/PATH for one of the project, "
            "or all of it as YAML."
        ),
    ] = ()
    secret: Annotated[Words, Parameter(help="The name of a secret, which becomes a variable of the program.")] = ()
    env: Annotated[
        Words,
        Parameter(name=["--env", "-e"], help="A variable: NAME=VALUE, or NAME to pass on its value from here."),
    ] = ()
    input: Annotated[
        Words,
        Parameter(
            name=["--input", "-i"],
            help="An argument of the function: NAME=VALUE, where the value is JSON or else text.",
        ),
    ] = ()
    file: Annotated[
        Path | None,
        Parameter(
            name=["--file", "-f"],
            show_default=False,
            help="A YAML file with more of the request; options win over it.",
        ),
    ] = None
    action: Annotated[Amount, Parameter(help="What it does: job, serve or workspace. Left out, job.")] = None
    idle_timeout: Annotated[
        Amount, Parameter(help="When to stop a workspace that nobody uses, and that does nothing: 30m.")
    ] = None
    deadline: Annotated[Amount, Parameter(help="When to end it at the latest: 90, 30m or 2h.")] = None
    retries: Annotated[Amount, Parameter(help="How often to try it again after a failure: 2.")] = None
    on_oom_grow: Annotated[
        Amount, Parameter(help="After it ran out of memory, try it again with so much more: 1.5 times.")
    ] = None
    on_oom_max: Annotated[Amount, Parameter(help="The most memory that it is given then: 64Gi.")] = None
    priority: Annotated[Amount, Parameter(help="How far before others it waits: -100 to 100, in hours.")] = None
    schedule: Annotated[Amount, Parameter(help='When to run it, again and again: "0 6 * * *" or @daily.')] = None
    timezone: Annotated[Amount, Parameter(help="The time zone of the schedule, such as Europe/Rome.")] = None
    missed: Annotated[Amount, Parameter(help="What becomes of missed times: skip, once or all.")] = None
    overlap: Annotated[Amount, Parameter(help="Whether runs of the schedule may overlap: allow or skip.")] = None
    schedule_name: Annotated[Amount, Parameter(help="What the schedule is called. Left out, as the function.")] = None
    name: Annotated[Amount, Parameter(help="The name of the function. Left out, that of the file.")] = None
    image: Annotated[Amount, Parameter(help="A container image to run instead of code.")] = None
    pull_policy: Annotated[Amount, Parameter(help="When the image is pulled: Always, IfNotPresent or Never.")] = None
    pull_secret: Annotated[
        Words, Parameter(help="The name of a secret with which the image is pulled: a Docker config as JSON.")
    ] = ()
    strict: Annotated[
        bool, Parameter(negative=(), show_default=False, help="Refuse to run with less than was asked for.")
    ] = False

    @property
    def images(self) -> dict[str, Any]:
        """The image, and how it is pulled."""
        secrets = list(self.pull_secret) or None
        return {"image": self.image, "pull_policy": self.pull_policy, "pull_secrets": secrets}

    def to_fields(self, args: Sequence[str] = (), asked: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The fields of a request beside its function: those of another one first, then of the file, then options."""
        fields = {**(asked or {}), **({} if self.file is None else read_file(self.file))}
        amounts = {
            "cpu": _amount(self.cpu, self.cpu_limit),
            "mem": _amount(self.mem, self.mem_limit),
            "gpu": self.gpu,
            "disk": self.disk,
        }
        resources = {name: amount for name, amount in amounts.items() if amount is not None}
        said = {
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
        return fields | {key: value for key, value in said.items() if value not in (None, [], {}, (), False)}

    def _schedule(self, fields: dict[str, Any]) -> dict[str, Any] | None:
        said = {"cron": self.schedule, "timezone": self.timezone, "missed": self.missed, "overlap": self.overlap}
        said = {part: value for part, value in {**said, "name": self.schedule_name}.items() if value is not None}
        asked = fields.get("schedule")
        before = {"cron": asked} if isinstance(asked, str) else dict(asked or {})
        if said and "cron" not in {**before, **said}:
            option = f"--{next(iter(said)).replace('name', 'schedule-name')}"
            raise Unreadable(f"{option} is said, and no schedule", 'say when: --schedule "0 6 * * *"')
        return {**before, **said} if said else None


Wanting = Annotated[Wanted | None, Parameter(name="*")]


def name_program(program: str) -> str:
    """What a function is called of which only the file is said, with or without a :function."""
    stem = Path(program.partition(":")[0]).resolve().stem.replace("_", "-")
    return stem if NAME.matches(stem) else "run"


def read_file(file: Path) -> dict[str, Any]:
    """The fields of a request in a file that leaves the function to the command."""
    found = read_mapping(file)
    if "function" in found:
        message = f"{file} says function, which is left to the command here"
        raise Unreadable(message, f"take it out of the file, or run that: fairlead run {file}")
    return found


def is_request(program: str | None, wanted: Wanted) -> bool:
    """Whether what is said in the place of a program is a file with a request."""
    return program is not None and wanted.image is None and program.lower().endswith(ENDINGS)


def parse_request(fields: Mapping[str, Any], location: str | None) -> RunRequest:
    """A request, or all that is wrong with it, and where it was written."""
    try:
        return RunRequest.model_validate(fields)
    except ValidationError as error:
        raise RequestRejected(
            [replace(found, location=location) for found in violations_of(error, RunRequest)]
        ) from None


def read_mapping(file: Path) -> dict[str, Any]:
    """The fields of a request in a file."""
    found = yamls.load_file(file)
    if isinstance(found, Violation):
        raise RequestRejected([found])
    if len(found) != 1 or not isinstance(found[0], dict):
        raise Unreadable(f"{file} is not one mapping", "write fields of a request: resources, volumes, envs")
    return {name: value for name, value in found[0].items() if value is not None}


def _amount(request: str | None, limit: str | None) -> str | dict[str, str] | None:
    if limit is None:
        return request
    return {"limits": limit} | ({"requests": request} if request is not None else {})


def _on_oom(grow: str | None, most: str | None) -> dict[str, str]:
    said = {"grow": grow, "max": most}
    return {part: value for part, value in said.items() if value is not None}


def _mapping_of(asked: dict[str, Any], name: str) -> Mapping[str, Any]:
    said = asked.pop(name, {})
    if not isinstance(said, Mapping):
        raise Unreadable(f"{name} is no mapping", f"write {name}: {{NAME: value}}")
    return said


def _list_of(asked: dict[str, Any], name: str) -> Sequence[Any]:
    said = asked.pop(name, [])
    if not isinstance(said, list):
        raise Unreadable(f"{name} is no list", f"put what is in {name} into [ ]")
    return said


def _envs_of(asked: dict[str, Any]) -> Mapping[str, Any]:
    said = asked.pop("envs", {})
    if isinstance(said, Mapping):
        return said
    if not isinstance(said, list) or not all(
        isinstance(env, Mapping) and {"name", "value"} <= set(env) for env in said
    ):
        raise Unreadable("envs is neither a mapping nor a list of name and value", "write envs: {NAME: value}")
    return {env["name"]: env["value"] for env in said}


def _parse_volume(text: str) -> dict[str, Any]:
    if text.lstrip().startswith("{"):
        found = yamls.parse_documents(text.encode())
        if len(found) != 1 or not isinstance(found[0], dict):
            raise Unreadable(f"{text!r} is not one mapping", "write {volume_type: ..., name: ..., mount_path: ...}")
        return dict(found[0])
    parts = text.split(":")
    kind, _, shared = parts[0].partition("/")
    if kind == "shared" and shared and len(parts) == 2:
        spec = {"claim_name": shared}
        return {"volume_type": "shared_volume", "name": shared, "mount_path": parts[1], "spec": spec}
    if len(parts) != 3:
        hint = "write NAME:/PATH:SIZE, such as data:/data:10Gi, or shared/NAME:/PATH"
        raise Unreadable(f"{text!r} is no volume", hint)
    name, path, size = parts
    spec = {"size": size}
    return {"volume_type": "persistent_volume_claim", "name": name, "mount_path": path, "spec": spec}


def _parse_env(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if equals:
        return name, value
    if name not in os.environ:
        raise Unreadable(f"variable {name} is not set here", f"say its value: --env {name}=VALUE")
    return name, os.environ[name]


def _parse_input(text: str) -> tuple[str, Any]:
    name, equals, value = text.partition("=")
    if not equals:
        raise Unreadable(f"{text!r} is no input", "write a name and a value: --input epochs=3")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value
