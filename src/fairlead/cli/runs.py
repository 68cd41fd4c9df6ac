"""`fairlead runs` and `fairlead open`: list, follow, explain, change, stop and open runs."""

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

from cyclopts import Parameter

from fairlead.cli.objects import (
    Json,
    ListOptions,
    ObjectCommands,
    WithListOptions,
    connect_to_server,
    gather,
    print_item,
    print_items,
    print_list,
)
from fairlead.cli.output import Columns, Item, format_count, print_done, print_table, write_log
from fairlead.cli.run_command import follow
from fairlead.errors import Conflict, Forbidden, NotFound, Unreadable
from fairlead.model.quantities import NANOS, Quantity, QuantityFormat
from fairlead.sdk import api_client
from fairlead.sdk.projects import get_run
from fairlead.sdk.runs import choose_suggestion, show_duration

COLUMNS: Columns = {
    "ID": "id",
    "FUNCTION": "function",
    "STATE": "state",
    "REASON": "reason",
    "PROFILE": "compute_resource",
    "PROJECT": lambda run: run["scope"].partition("/")[2],
    "TOOK": show_duration,
    "AGE": "created_at",
}
FILES = {"PATH": "path", "BYTES": "size", "AGE": "modified_at"}
ATTEMPTS: Columns = {
    "ATTEMPT": "number",
    "STATE": "state",
    "REASON": "reason",
    "EXIT": "exit_code",
    "MEMORY": lambda attempt: (
        str(Quantity(attempt["mem_bytes"] * NANOS, QuantityFormat.BINARY)) if attempt["mem_bytes"] else ""
    ),
    "TOOK": show_duration,
    "MESSAGE": "message",
}
EVENTS = {"AGE": "at", "STATE": "state", "REASON": "reason", "MESSAGE": "message"}
RUNS = ObjectCommands("run", "/runs", COLUMNS)
WHOLE_ID = 32  # hexadecimal digits of a UUID

InProject = Annotated[
    str | None, Parameter(env_var="FAIRLEAD_PROJECT", show_env_var=True, help="Only runs in this project.")
]

Attempt = Annotated[int | None, Parameter(show_default=False, help="The attempt number. Default: the last attempt.")]


def find_id(text: str) -> str:
    """Find a run by a prefix or suffix of its ID."""
    if len(text) >= WHOLE_ID:
        return text
    # Messages show the end of an ID, because IDs begin with the time and recent ones look alike.
    matches = [str(run["id"]) for run in islice(connect_to_server().list("/runs", search=text, limit=50), 50)]
    ids = [run_id for run_id in matches if run_id.startswith(text) or run_id.endswith(text)]
    if len(ids) > 1:
        raise Conflict(
            f"{len(ids)} run IDs start or end with {text!r}", f"use a longer part of the ID, such as {ids[0]}"
        )
    if not ids:
        raise NotFound(f"run {text!r} does not exist", "list runs with fairlead runs ls")
    return ids[0]


def ls(*, project: InProject = None, list_options: WithListOptions = None, as_json: Json = False) -> int:
    """List runs, newest first. Default limit: 20."""
    path = f"/projects/{project}/runs" if project else "/runs"
    list_options = list_options or ListOptions()
    # Without a limit, a platform's runs could fill thousands of lines.
    limited = (
        list_options
        if list_options.limit is not None
        else ListOptions(list_options.search, list_options.sort, list_options.filter, 20)
    )
    return print_list(path, COLUMNS, "runs", limited, as_json)


def show(run_id: str, /, *, as_json: Json = False) -> int:
    """Show a run and its events."""
    run, events = (
        connect_to_server().get(RUNS.at(find_id(run_id))),
        connect_to_server().get(RUNS.at(find_id(run_id), "events")),
    )
    run |= _find_url(run)
    if as_json:
        print(json.dumps({**run, "events": events}, indent=2))
        return 0
    print_item(run, as_json=False)
    print()
    print_table(events, EVENTS)
    return 0


def logs(
    run_id: str,
    /,
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative=(), show_default=False)] = False,
    cursor: Annotated[int | None, Parameter(show_default=False)] = None,
    attempt: Attempt = None,
    raw: Annotated[bool, Parameter(negative=(), show_default=False)] = False,
    as_json: Annotated[
        Json, Parameter(help="Print each chunk as a line of JSON with its time, stream and cursor.")
    ] = False,
) -> int:
    """Print the log of a run.

    Parameters
    ----------
    follow
        Follow the log until the run ends.
    cursor
        Start at this cursor, as printed by --json; 0 is the start of the first attempt.
    raw
        Keep control sequences, such as colors. By default they are removed if the output is a terminal.
    """
    for line in get_run(find_id(run_id)).read_logs(follow=follow, cursor=cursor, attempt=attempt):
        if as_json:
            print(json.dumps({"at": line.at.isoformat(), "stream": line.stream, "text": line.text, "cursor": line.end}))
            continue
        write_log(line.data, to_stderr=line.stream != "stdout", raw=raw)
    return 0


def stop(run_id: str, /, *, wait: Annotated[bool, Parameter(negative=())] = False, as_json: Json = False) -> int:
    """Stop a run.

    Parameters
    ----------
    wait
        Wait until the run has ended.
    """
    run = get_run(find_id(run_id))
    if not run.data["active"]:
        return print_done(f"run {run_id} has already ended: {run.data['state']}", run.data, as_json)
    run.stop()
    if wait:
        run.wait()
    return print_done(f"run {run_id} is {run.data['state']}", run.data, as_json)


def rm(run_id: str, /, *more: str, as_json: Json = False) -> int:
    """Delete runs that have ended, with their logs and files."""
    for each in (run_id, *more):
        connect_to_server().delete(RUNS.at(find_id(each)))
    return print_done(f"deleted {format_count(1 + len(more), 'run')}", None, as_json)


def explain(run_id: str, /, *, as_json: Json = False) -> int:
    """Show all values of a run with their sources."""
    if as_json:
        print(json.dumps(connect_to_server().get(RUNS.at(find_id(run_id), "explain")), indent=2))
    else:
        print(get_run(find_id(run_id)).explain())
    return 0


def why(run_id: str, /, *, as_json: Json = False) -> int:
    """Explain the state of a run."""
    why = get_run(find_id(run_id)).why()
    if as_json:
        print(json.dumps(why.data, indent=2))
        return 0
    print(why)
    if any(suggestion.kind != "wait" for suggestion in why.suggestions):
        print(f"try: fairlead runs change {run_id} NUMBER")
    return 0


def change(run_id: str, suggestion: str, /, *, as_json: Json = False) -> int:
    """Apply a suggestion from `fairlead runs why` by replacing the waiting run.

    Parameters
    ----------
    run_id
        The waiting run.
    suggestion
        The number of the suggestion.
    """
    why = get_run(find_id(run_id)).why()
    # Parsed here, because the CLI parser's error would not name the command that lists the suggestions.
    if not (suggestion.isascii() and suggestion.isdecimal()):
        raise Unreadable(f"invalid suggestion {suggestion!r}", f"use a number from: fairlead why {run_id}")
    if not why.suggestions:
        raise Conflict(
            f"run {run_id} is {why.data['state']} and has no suggestions", f"explain it: fairlead why {run_id}"
        )
    chosen = choose_suggestion(why.suggestions, int(suggestion))
    done = why.apply(chosen)
    return print_done(f"run {done.id} replaces {run_id}: {chosen.message}", done.data, as_json)


def result(run_id: str, /, *, as_json: Json = False) -> int:
    """Print the return value of a run."""
    if as_json:
        print(json.dumps(connect_to_server().get(RUNS.at(find_id(run_id), "result")), indent=2))
        return 0
    matches = get_run(find_id(run_id)).result
    if isinstance(matches, bytes):
        # Written unchanged, so that it can be redirected to a file.
        sys.stdout.buffer.write(matches)
    else:
        print(json.dumps(matches, indent=2))
    return 0


def attempts(run_id: str, /, *, as_json: Json = False) -> int:
    """List the attempts of a run."""
    return print_items(get_run(find_id(run_id)).attempts(), ATTEMPTS, "attempts", as_json)


def usage(run_id: str, /, *, attempt: Attempt = None, as_json: Json = False) -> int:
    """Show the peak resource usage of a run."""
    matches = get_run(find_id(run_id)).usage(attempt=attempt)
    return print_item(matches if as_json else matches["peaks"], as_json)


def files(run_id: str, /, *, attempt: Attempt = None, as_json: Json = False) -> int:
    """List the output files of a run (in $FAIRLEAD_OUTPUT)."""
    return print_items(get_run(find_id(run_id)).files(attempt=attempt), FILES, "files", as_json)


def download(run_id: str, path: str, to: Path | None = None, /, *, attempt: Attempt = None) -> int:
    """Download an output file of a run."""
    file = get_run(find_id(run_id)).download(path, to, attempt=attempt)
    print(f"{file}: {file.stat().st_size} bytes")
    return 0


def again(run_id: str, /, *, detach: Annotated[bool, Parameter(name=["--detach", "-d"], negative=())] = False) -> int:
    """Submit a run again with the same code and request.

    Parameters
    ----------
    detach
        Print the new run's ID and exit without waiting.
    """
    run = get_run(find_id(run_id)).repeat()
    if detach:
        print(run.id)
        return 0
    return follow(run)


runs = gather("runs", ls, show, attempts, logs, stop, rm, explain, why, change, result, usage, files, download, again)


def open_(
    what: str = "/",
    /,
    *,
    only_print: Annotated[bool, Parameter(name="--print", negative=(), show_default=False)] = False,
    as_json: Json = False,
) -> int:
    """Open the web UI or a served run in a browser, signed in as you.

    Parameters
    ----------
    what
        A web UI path, such as /policies, or a run ID.
    only_print
        Print the URL instead. It works once and expires after 15 minutes, or after 1 minute for a run.
    """
    is_page = "/" in what or not what  # run IDs contain no slash
    if is_page:
        link, lasts = connect_to_server().post("/sessions/link", {"next": what}), "15 minutes"
    else:
        link, lasts = connect_to_server().post(RUNS.at(_find_run(what), "open"), None), "a minute"
    if only_print:
        return print_done(link["url"], link, as_json)
    if not api_client.open_in_browser(link["url"]):
        print(f"no browser found; open this URL within {lasts} (it works once)", file=sys.stderr)
        return print_done(link["url"], link, as_json)
    # The query is left out, because it contains the one-time code.
    parts = urlsplit(link["url"])
    path = (what or "/") if is_page else "/"
    return print_done(f"opened {parts.scheme}://{parts.netloc}{path} in a browser", link, as_json)


def _find_url(run: Item) -> dict[str, str]:
    """The URL of a served run as a field; empty if the run has ended or the user may not call it."""
    if run["action"] == "job" or not run["active"]:
        return {}
    try:
        return {"url": connect_to_server().get(RUNS.at(run["id"], "url"))["url"]}
    except (Conflict, Forbidden):
        return {}


def _find_run(text: str) -> str:
    try:
        return find_id(text)
    except NotFound as error:
        hint = f"list runs with fairlead runs ls; for a web UI path, use fairlead open /{text}"
        raise NotFound(str(error), hint) from None
