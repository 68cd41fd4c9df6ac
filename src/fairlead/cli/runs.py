"""`fairlead runs`: what runs do and did, and why."""

import json
import sys
from itertools import islice
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from fairlead.cli.nouns import Asked, Asking, Json, Noun, connect, gather, print_item, print_items, print_list
from fairlead.cli.printing import count, print_done, write_log
from fairlead.cli.running import follow
from fairlead.cli.tables import Columns, Item, print_table
from fairlead.errors import Conflict, Forbidden, NotFound, Unreadable
from fairlead.model.quantities import NANOS, Form, Quantity
from fairlead.sdk import showing
from fairlead.sdk.plans import choose
from fairlead.sdk.projects import get_run

COLUMNS: Columns = {
    "ID": "id",
    "FUNCTION": "function",
    "STATE": "state",
    "REASON": "reason",
    "PROFILE": "compute_resource",
    "PROJECT": lambda run: run["scope"].partition("/")[2],
    "TOOK": showing.show_duration,
    "AGE": "created_at",
}
FILES = {"PATH": "path", "BYTES": "size", "AGE": "modified_at"}
ATTEMPTS: Columns = {
    "ATTEMPT": "number",
    "STATE": "state",
    "REASON": "reason",
    "EXIT": "exit_code",
    "MEMORY": lambda attempt: str(Quantity(attempt["mem_bytes"] * NANOS, Form.BINARY)) if attempt["mem_bytes"] else "",
    "TOOK": showing.show_duration,
    "MESSAGE": "message",
}
EVENTS = {"AGE": "at", "STATE": "state", "REASON": "reason", "MESSAGE": "message"}
RUNS = Noun("run", "/runs", COLUMNS)
WHOLE_ID = 32

InProject = Annotated[
    str | None, Parameter(env_var="FAIRLEAD_PROJECT", show_env_var=True, help="Only of this project.")
]

Attempt = Annotated[
    int | None, Parameter(show_default=False, help="Which try of it, from 1 on. Left out, the last one.")
]


def find_id(text: str) -> str:
    """The id of a run, of which the beginning or the end will do."""
    if len(text) >= WHOLE_ID:
        return text
    found = [str(run["id"]) for run in islice(connect().list("/runs", search=text, limit=50), 50)]
    ids = [run_id for run_id in found if run_id.startswith(text) or run_id.endswith(text)]
    if len(ids) > 1:
        raise Conflict(f"{len(ids)} runs have an id that begins or ends with {text!r}", f"say more of it: {ids[0]}")
    if not ids:
        raise NotFound(f"there is no run {text!r}", "see fairlead runs ls")
    return ids[0]


def ls(*, project: InProject = None, asked: Asking = None, as_json: Json = False) -> int:
    """List runs, the newest first: 20 of them where --limit does not say otherwise."""
    path = f"/projects/{project}/runs" if project else "/runs"
    asked = asked or Asked()
    limited = asked if asked.limit is not None else Asked(asked.search, asked.sort, asked.filter, 20)
    return print_list(path, COLUMNS, "runs", limited, as_json)


def show(run_id: str, /, *, as_json: Json = False) -> int:
    """Show all of a run, with what happened to it."""
    run, events = connect().get(RUNS.at(find_id(run_id))), connect().get(RUNS.at(find_id(run_id), "events"))
    run |= _find_url(run)
    if as_json:
        print(json.dumps({**run, "events": events}, indent=2))
        return 0
    print_item(run, as_json=False)
    print()
    print_table(events, EVENTS)
    return 0


def _find_url(run: Item) -> dict[str, str]:
    """Where a run is reached that serves something; nothing where one may not, or where it has ended."""
    if run["action"] == "job" or not run["active"]:
        return {}
    try:
        return {"url": connect().get(RUNS.at(run["id"], "url"))["url"]}
    except (Conflict, Forbidden):
        return {}


def logs(
    run_id: str,
    /,
    *,
    follow: Annotated[bool, Parameter(name=["--follow", "-f"], negative=(), show_default=False)] = False,
    cursor: Annotated[int | None, Parameter(show_default=False)] = None,
    attempt: Attempt = None,
    as_json: Json = False,
) -> int:
    """Print what a run wrote, at its last try where no other is said.

    Parameters
    ----------
    follow
        Go on until the run ends.
    cursor
        Where to begin, as --json tells it; 0 for its first try.
    as_json
        Print each piece as a line of JSON, with its time and stream.
    """
    for line in get_run(find_id(run_id)).read_logs(follow=follow, cursor=cursor, attempt=attempt):
        if as_json:
            print(json.dumps({"at": line.at.isoformat(), "stream": line.stream, "text": line.text, "cursor": line.end}))
            continue
        write_log(line.data, aside=line.stream != "stdout")
    return 0


def stop(run_id: str, /, *, wait: Annotated[bool, Parameter(negative=())] = False, as_json: Json = False) -> int:
    """End a run.

    Parameters
    ----------
    wait
        Wait until it has ended.
    """
    run = get_run(find_id(run_id))
    if not run.data["active"]:
        return print_done(f"run {run_id} had ended: {run.data['state']}", run.data, as_json)
    run.stop()
    if wait:
        run.wait()
    return print_done(f"run {run_id} is {run.data['state']}", run.data, as_json)


def rm(run_id: str, /, *more: str, as_json: Json = False) -> int:
    """Forget runs that have ended, with their logs and files."""
    for each in (run_id, *more):
        connect().delete(RUNS.at(find_id(each)))
    return print_done(f"forgot {count(1 + len(more), 'run')}", None, as_json)


def explain(run_id: str, /, *, as_json: Json = False) -> int:
    """Show every value that a run has, who set it and whom it overrode."""
    if as_json:
        print(json.dumps(connect().get(RUNS.at(find_id(run_id), "explain")), indent=2))
    else:
        print(get_run(find_id(run_id)).explain())
    return 0


def why(run_id: str, /, *, as_json: Json = False) -> int:
    """Say why a run is where it is."""
    why = get_run(find_id(run_id)).why()
    if as_json:
        print(json.dumps(why.data, indent=2))
        return 0
    print(why)
    if any(way.kind != "wait" for way in why.suggestions):
        print(f"try: fairlead runs change {run_id} NUMBER")
    return 0


def change(run_id: str, suggestion: str, /, *, as_json: Json = False) -> int:
    """Take a suggestion of `fairlead runs why`: another run takes the place of one that waits.

    Parameters
    ----------
    run_id
        The run that waits.
    suggestion
        The number of the suggestion.
    """
    why = get_run(find_id(run_id)).why()
    if not (suggestion.isascii() and suggestion.isdecimal()):
        raise Unreadable(f"{suggestion!r} is no number of a suggestion", f"see them: fairlead why {run_id}")
    if not why.suggestions:
        raise Conflict(
            f"run {run_id} is {why.data['state']}, and nothing is known that would help", "see why it is there"
        )
    way = choose(why.suggestions, int(suggestion))
    done = why.apply(way)
    return print_done(f"run {done.id} is in the place of {run_id}: {way.message}", done.data, as_json)


def result(run_id: str, /, *, as_json: Json = False) -> int:
    """Print what the function of a run returned."""
    if as_json:
        print(json.dumps(connect().get(RUNS.at(find_id(run_id), "result")), indent=2))
        return 0
    found = get_run(find_id(run_id)).result
    if isinstance(found, bytes):
        sys.stdout.buffer.write(found)
    else:
        print(json.dumps(found, indent=2))
    return 0


def attempts(run_id: str, /, *, as_json: Json = False) -> int:
    """List the tries of a run: how each ended, and how far the last one is."""
    return print_items(get_run(find_id(run_id)).attempts(), ATTEMPTS, "attempts", as_json)


def usage(run_id: str, /, *, attempt: Attempt = None, as_json: Json = False) -> int:
    """Show the most that a run used."""
    found = get_run(find_id(run_id)).usage(attempt=attempt)
    return print_item(found if as_json else found["peaks"], as_json)


def files(run_id: str, /, *, attempt: Attempt = None, as_json: Json = False) -> int:
    """List the files that a run left in $FAIRLEAD_OUTPUT."""
    return print_items(get_run(find_id(run_id)).files(attempt=attempt), FILES, "files", as_json)


def download(run_id: str, path: str, to: Path | None = None, /, *, attempt: Attempt = None) -> int:
    """Copy a file that a run left to this machine."""
    file = get_run(find_id(run_id)).download(path, to, attempt=attempt)
    print(f"{file}: {file.stat().st_size} bytes")
    return 0


def again(run_id: str, /, *, detach: Annotated[bool, Parameter(name=["--detach", "-d"], negative=())] = False) -> int:
    """Run it again, with the same code and the same request.

    Parameters
    ----------
    detach
        Do not wait: print the id of the new run.
    """
    run = get_run(find_id(run_id)).repeat()
    if detach:
        print(run.id)
        return 0
    return follow(run)


runs = gather("runs", ls, show, attempts, logs, stop, rm, explain, why, change, result, usage, files, download, again)
