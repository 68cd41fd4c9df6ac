"""`fairlead run`: submit a program, show what it does, and end as it ends."""

import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from fairlead.cli.holdings import DEFAULT
from fairlead.cli.nouns import Json, Project
from fairlead.cli.places import PROJECTS
from fairlead.cli.printing import write_log
from fairlead.errors import RequestRejected, Unreadable
from fairlead.files import yamls
from fairlead.model.names import NAME
from fairlead.model.plans import Violation
from fairlead.model.states import State
from fairlead.sdk import showing
from fairlead.sdk.functions import Function
from fairlead.sdk.projects import project as open_project
from fairlead.sdk.runs import Run

INTERRUPTED = 130

Words = Annotated[Sequence[str], Parameter(negative=(), show_default=False)]
Amount = Annotated[str | None, Parameter(show_default=False)]


def run(
    program: str,
    /,
    *args: Annotated[str, Parameter(show_default=False)],
    profile: Annotated[str | None, Parameter(name=["--profile", "-p"], show_default=False)] = None,
    template: Amount = None,
    cpu: Amount = None,
    cpu_limit: Amount = None,
    mem: Amount = None,
    mem_limit: Amount = None,
    gpu: Amount = None,
    disk: Amount = None,
    volume: Words = (),
    secret: Words = (),
    env: Annotated[Sequence[str], Parameter(name=["--env", "-e"], negative=(), show_default=False)] = (),
    input: Annotated[Sequence[str], Parameter(name=["--input", "-i"], negative=(), show_default=False)] = (),
    file: Annotated[Path | None, Parameter(name=["--file", "-f"], show_default=False)] = None,
    deadline: Amount = None,
    name: Amount = None,
    image: Amount = None,
    pull_policy: Amount = None,
    pull_secret: Words = (),
    project: Project = DEFAULT,
    strict: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    detach: Annotated[bool, Parameter(name=["--detach", "-d"], negative=(), show_default=False)] = False,
    preview: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    as_json: Json = False,
) -> int:
    """Run a program with the compute it asks for. Its logs are shown as they come; its exit code is this command's.

    Parameters
    ----------
    program
        A file or folder of Python code, with :function for one of its functions. With --image, what it is called.
    args
        Arguments of the program, after `--`.
    profile
        A compute resource, by name.
    template
        A template to start from, by name.
    cpu
        Cores: 8, 0.5 or 500m.
    cpu_limit
        The most cores that it may use.
    mem
        Memory: 32Gi.
    mem_limit
        The most memory that it may use, over which it is ended.
    gpu
        GPUs: 1.
    disk
        Scratch space: 10Gi.
    volume
        A volume: NAME:/PATH:SIZE for one of this run, shared/NAME:/PATH for one of the project, or all of it as YAML.
    secret
        The name of a secret, which becomes a variable of the program.
    env
        A variable: NAME=VALUE, or NAME to pass on its value from here.
    input
        An argument of the function: NAME=VALUE, where the value is JSON or else text.
    file
        A YAML file with more of the request; options win over it.
    deadline
        When to end it at the latest: 90, 30m or 2h.
    name
        The name of the function. Left out, that of the file.
    image
        A container image to run instead of code.
    pull_policy
        When the image is pulled: Always, IfNotPresent or Never.
    pull_secret
        The name of a secret with which the image is pulled: a Docker config as JSON.
    strict
        Refuse to run with less than was asked for.
    detach
        Do not wait: print the id of the run.
    preview
        Only say what would run, with which values and why.
    as_json
        Print the run and its result as JSON at the end; logs go to stderr.
    """
    asked: dict[str, Any] = {} if file is None else _read_file(file)
    amounts = {"cpu": _amount(cpu, cpu_limit), "mem": _amount(mem, mem_limit), "gpu": gpu, "disk": disk}
    resources = {name: amount for name, amount in amounts.items() if amount is not None}
    said = {
        "profile": profile,
        "template": template,
        "resources": {**_mapping_of(asked, "resources"), **resources},
        "volumes": [*_list_of(asked, "volumes"), *map(_parse_volume, volume)],
        "secrets": [*_list_of(asked, "secrets"), *secret],
        "envs": {**_envs_of(asked), **dict(map(_parse_env, env))},
        "inputs": {**_mapping_of(asked, "inputs"), **dict(map(_parse_input, input))},
        "args": list(args),
        "deadline": deadline,
        "strict": strict,
    }
    asked |= {key: value for key, value in said.items() if value not in (None, [], {}, (), False)}
    if args and image is None and ":" in program:
        message = f"a function takes no arguments of a command line, found {' '.join(args)}"
        raise Unreadable(message, "say --input NAME=VALUE, or run the file without a function")
    images = {"image": image, "pull_policy": pull_policy, "pull_secrets": list(pull_secret) or None}
    function = _find_function(program, name, images, project or DEFAULT)
    if preview:
        plan = function.preview(**asked)
        print(json.dumps(plan.data, indent=2) if as_json else plan)
        return 1 if plan.violations else 0
    started = function.run(**asked)
    if detach:
        print(json.dumps(started.data, indent=2) if as_json else started.id)
        return 0
    return follow(started, as_json=as_json)


def follow(run: Run, *, as_json: bool = False) -> int:
    """Show what a run does until it ends; its exit code."""
    try:
        run.wait_for_start()
        for line in run.read_logs(follow=True):
            write_log(line.data, aside=as_json or line.stream != "stdout")
        run.wait(progress=False)
    except KeyboardInterrupt:
        print(f"\nrun {run.id} goes on\n  -> fairlead runs logs --follow {run.id}", file=sys.stderr)
        print(f"  -> fairlead runs stop {run.id}", file=sys.stderr)
        return INTERRUPTED
    return _tell_outcome(run, as_json=as_json)


def _tell_outcome(run: Run, *, as_json: bool) -> int:
    state, result = run.state, None
    if state is State.COMPLETED:
        result = run.result
    if as_json:
        shown = repr(result) if isinstance(result, bytes) else result
        print(json.dumps({**run.data, "result": shown}, indent=2))
    else:
        took = showing.show_duration(run.data)
        ending = f"{state}" + (f" in {took}" if took else "")
        ending += f": {run.message}" if state is not State.COMPLETED else ""
        print(f"{run.function} {run.id[-8:]}: {ending}", file=sys.stderr)
        if result is not None:
            shown = f"{len(result)} bytes" if isinstance(result, bytes) else json.dumps(result)
            print(f"result: {shown}", file=sys.stderr)
    return 0 if state is State.COMPLETED else run.exit_code or 1


def _amount(request: str | None, limit: str | None) -> str | dict[str, str] | None:
    if limit is None:
        return request
    return {"limits": limit} | ({"requests": request} if request is not None else {})


def _find_function(program: str, name: str | None, images: dict[str, Any], project: str) -> Function:
    PROJECTS.require(project)  # a project that is misspelt is not made
    here = open_project(project)
    if images["image"] is not None:
        return here.function(name or program, **images)
    source, _, handler = program.partition(":")
    stem = Path(source).resolve().stem.replace("_", "-")
    named = name or (stem if NAME.matches(stem) else "run")
    return here.function(named, source=source, handler=handler or None, **images)


def _read_file(file: Path) -> dict[str, Any]:
    found = yamls.load_file(file)
    if isinstance(found, Violation):
        raise RequestRejected([found])
    if len(found) != 1 or not isinstance(found[0], dict):
        raise Unreadable(f"{file} is not one mapping", "write fields of a request: resources, volumes, envs")
    if "function" in found[0]:
        raise Unreadable(f"{file} says function, and so does the command", "take it out of the file")
    return {name: value for name, value in found[0].items() if value is not None}


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
