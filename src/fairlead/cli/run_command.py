"""`fairlead run`: submit a program, follow its log, and exit with its exit code."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from fairlead.cli.object_commands import Json, Project
from fairlead.cli.printing import write_log
from fairlead.cli.project_objects import DEFAULT
from fairlead.cli.request_options import (
    Arguments,
    RequestOptions,
    WithRequestOptions,
    is_request,
    name_program,
    parse_request,
    read_mapping,
)
from fairlead.cli.schedules import describe_created
from fairlead.cli.scopes import PROJECTS
from fairlead.errors import Unreadable
from fairlead.model.runs import State
from fairlead.sdk import showing
from fairlead.sdk.projects import project as open_project
from fairlead.sdk.runs import Run

INTERRUPTED = 130  # a shell's exit code after Ctrl-C: 128 + SIGINT


def run(
    program: Annotated[str | None, Parameter(show_default=False)] = None,
    /,
    *args: Arguments,
    options: WithRequestOptions = None,
    function: Annotated[str | None, Parameter(show_default=False)] = None,
    project: Project = DEFAULT,
    detach: Annotated[bool, Parameter(name=["--detach", "-d"], negative=(), show_default=False)] = False,
    preview: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    as_json: Json = False,
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
    as_json
        Print the run and its result as JSON at the end. Logs go to stderr.
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
    if preview:
        plan = target.preview(**fields)
        print(json.dumps(plan.data, indent=2) if as_json else plan)
        return 1 if plan.violations else 0
    if "schedule" in fields:
        schedule = target.run(**fields)
        print(json.dumps(schedule.data, indent=2) if as_json else describe_created(schedule))
        return 0
    started = target.run(**fields)
    if detach:
        print(json.dumps(started.data, indent=2) if as_json else started.id)
        return 0
    return follow(started, as_json=as_json)


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
        took = showing.show_duration(run.data)
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
    # project.function() would guess the kind from the other fields. Let the model determine it, as in a preview.
    if function.keys() != {"name"}:  # a name alone refers to a stored function
        function["kind"] = request.function.kind
    if "source" in function and "code" not in function:  # with a digest, the server already has the code
        function["source"] = str(file.parent / function["source"])
    return function, fields
