"""`fairlead run`: submit a program, show what it does, and end as it ends."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from fairlead.cli.holdings import DEFAULT
from fairlead.cli.nouns import Json, Project
from fairlead.cli.printing import write_log
from fairlead.cli.requesting import Arguments, Wanted, Wanting, is_request, name_program, parse_request, read_mapping
from fairlead.cli.schedules import describe_kept
from fairlead.cli.scopes import PROJECTS
from fairlead.errors import Unreadable
from fairlead.model.states import State
from fairlead.sdk import showing
from fairlead.sdk.projects import project as open_project
from fairlead.sdk.runs import Run

INTERRUPTED = 130


def run(
    program: Annotated[str | None, Parameter(show_default=False)] = None,
    /,
    *args: Arguments,
    wanted: Wanting = None,
    function: Annotated[str | None, Parameter(show_default=False)] = None,
    project: Project = DEFAULT,
    detach: Annotated[bool, Parameter(name=["--detach", "-d"], negative=(), show_default=False)] = False,
    preview: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    as_json: Json = False,
) -> int:
    """Run a program with the compute it asks for. Its logs are shown as they come; its exit code is this command's.

    Parameters
    ----------
    program
        A file or folder of Python code, with :function for one of its functions; or a YAML file with a request.
        With --image, what it is called. A workspace needs none.
    function
        A function that the project keeps, in place of a program.
    detach
        Do not wait: print the id of the run.
    preview
        Only say what would run, with which values and why.
    as_json
        Print the run and its result as JSON at the end; logs go to stderr.
    """
    wanted = wanted or Wanted()
    if function is not None:  # then all words are arguments
        args, program = (*([] if program is None else [program]), *args), None
    if args and wanted.image is None and ":" in (program or ""):
        message = f"a function takes no arguments of a command line, found {' '.join(args)}"
        raise Unreadable(message, "say --input NAME=VALUE, or run the file without a function")
    asked: dict[str, Any]
    if program is not None and is_request(program, wanted):
        said, asked = _read_request(Path(program), args, wanted)
    else:
        asked = wanted.to_fields(args)
        said = _name_function(program, function, wanted, action=asked.get("action"))
    PROJECTS.require(project or DEFAULT)  # a project that is misspelt is not made
    found = open_project(project or DEFAULT).function(**said)
    if preview:
        plan = found.preview(**asked)
        print(json.dumps(plan.data, indent=2) if as_json else plan)
        return 1 if plan.violations else 0
    if "schedule" in asked:
        kept = found.run(**asked)
        print(json.dumps(kept.data, indent=2) if as_json else describe_kept(kept))
        return 0
    started = found.run(**asked)
    if detach:
        print(json.dumps(started.data, indent=2) if as_json else started.id)
        return 0
    return follow(started, as_json=as_json)


def follow(run: Run, *, as_json: bool = False) -> int:
    """Show what a run does until it ends; its exit code."""
    try:
        run.wait_for_start()
        _describe_url(run)
        for line in run.read_logs(follow=True, cursor=0):
            write_log(line.data, aside=as_json or line.stream != "stdout")
        run.wait(progress=False)
    except KeyboardInterrupt:
        print(f"\nrun {run.id} goes on\n  -> fairlead runs logs --follow {run.id}", file=sys.stderr)
        print(f"  -> fairlead runs stop {run.id}", file=sys.stderr)
        return INTERRUPTED
    return _describe_outcome(run, as_json=as_json)


def _describe_url(run: Run) -> None:
    """Say where a run answers that serves something, once it does."""
    if run.data["action"] != "job" and run.data["active"]:
        print(f"{run.function} {run.id[-8:]}: answers at {run.url}", file=sys.stderr)
        print(f"  -> fairlead open {run.id[-8:]}", file=sys.stderr)


def _describe_outcome(run: Run, *, as_json: bool) -> int:
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


def _name_function(program: str | None, kept: str | None, wanted: Wanted, *, action: Any) -> dict[str, Any]:
    """What the command says of the function: a program, an image, one that is kept, or for a workspace nothing."""
    if kept is not None:
        said = [
            f"--{name.replace('_', '-')}" for name, value in {**wanted.images, "name": wanted.name}.items() if value
        ]
        if said:
            message = f"function {kept} is kept as it is, found {' '.join(said)}"
            raise Unreadable(message, "leave it out, or say a program in place of --function")
        return {"name": kept}
    if program is None:
        if action != "workspace":
            hint = "say a file, or --function and the name of one that is kept"
            raise Unreadable("it is not said what to run", hint)
        return {"name": wanted.name or "workspace", "kind": "python", **wanted.images}
    if wanted.image is not None:
        return {"name": wanted.name or program, **wanted.images}
    source, _, handler = program.partition(":")
    return {"name": wanted.name or name_program(program), "source": source, "handler": handler or None, **wanted.images}


def _read_request(file: Path, args: Sequence[str], wanted: Wanted) -> tuple[dict[str, Any], dict[str, Any]]:
    """What a file says of the function, whose code lies beside it, and what else is asked for."""
    written = read_mapping(file)
    said, asked = written.pop("function", None), wanted.to_fields(args, written)
    if said is None:
        hint = f"say function there, or a program: fairlead run train.py -f {file}"
        raise Unreadable(f"{file} does not say what to run", hint)
    function = {"name": said} if isinstance(said, str) else said
    if isinstance(function, dict):
        function = {"name": name_program(str(file)), **function, **({"name": wanted.name} if wanted.name else {})}
    request = parse_request({**asked, "function": function}, str(file))
    if function.keys() != {"name"}:  # by which alone a function is kept
        function["kind"] = request.function.kind
    if "source" in function and "code" not in function:  # which the server has
        function["source"] = str(file.parent / function["source"])
    return function, asked
