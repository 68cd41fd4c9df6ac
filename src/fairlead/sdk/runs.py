"""Runs, their plans and fit reports: wait for runs, read logs and results, stop, change and explain them."""

import base64
import html
import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from fairlead.errors import (
    Conflict,
    NotFound,
    PreviewOutdated,
    RequestRejected,
    RunFailed,
    Unavailable,
    Unreadable,
)
from fairlead.model import explanations
from fairlead.model.plans import Fit, Layer, Plan, PlanWarning, Setting, Source, SourcedValue, Suggestion, Violation
from fairlead.model.runs import State
from fairlead.sdk import api_client
from fairlead.sdk.api_client import ApiClient, path_of, read_content
from fairlead.sdk.plan_changes import PlanChanged, find_changes

PLAIN = ("Starting", "Running", "Completed")  # messages with these reasons add nothing to the state
COLUMNS = ("id", "function", "state", "reason", "compute_resource", "created_at", "duration")


@dataclass(frozen=True)
class PreviewActions:
    """What can be done with a preview: submit it with a token, submit it with a suggestion, or preview again."""

    submit: Callable[[str | None], "Run"]
    apply: Callable[[Suggestion], "Run"]
    repeat: Callable[[], "Preview"]


WAITING = (State.QUEUED, State.PENDING, State.STARTING)
MAX_WAIT = 30  # seconds per long poll; proxies often close silent connections after a minute
CALL_SECONDS = 90.0  # read timeout; the server does not wait longer than this for a served run
PATIENCE_SECONDS = 60.0  # how long to retry while the server restarts


class Progress:
    """Shows a run's state in a terminal or notebook, if there is one."""

    def __init__(self, *, quiet: bool = False) -> None:
        self.quiet = quiet
        self.began = time.monotonic()
        self.shown = ""
        self.display: Any = None

    def update(self, run: Mapping[str, Any]) -> None:
        """Show the current state of the run."""
        line = f"{run['function']} {run['id'][-8:]}: {run['state']}"
        if run["message"] and run["reason"] not in PLAIN:
            line += f", {run['message']}"
        # A long poll can return without a change.
        if self.quiet or line == self.shown:
            return
        self.shown = line
        if _is_notebook():
            self._show_in_notebook(run)
        elif sys.stderr.isatty():
            # Return to the start of the line and clear it, because the new text may be shorter.
            sys.stderr.write(f"\r\033[K{line[:200]} ({time.monotonic() - self.began:.1f} s)")
            sys.stderr.flush()
        else:
            # A log file gets a line for each change.
            sys.stderr.write(f"{line}\n")

    def finish(self) -> None:
        """End the progress line."""
        if self.shown and sys.stderr.isatty() and not _is_notebook() and not self.quiet:
            sys.stderr.write("\n")

    def _show_in_notebook(self, run: Mapping[str, Any]) -> None:
        from IPython.display import HTML, display  # type: ignore[import-not-found, unused-ignore]

        table = HTML(render_table([run]))
        if self.display is None:
            # The ID lets later updates replace this table instead of adding a new one.
            self.display = display(table, display_id=True)
        else:
            self.display.update(table)


def render_table(runs: Iterable[Mapping[str, Any]]) -> str:
    """Render runs as an HTML table."""
    head = "".join(f"<th>{name.replace('_', ' ')}</th>" for name in COLUMNS)
    rows = ("".join(f"<td>{html.escape(cell)}</td>" for cell in cells_of(run)) for run in runs)
    body = "".join(f"<tr>{row}</tr>" for row in rows)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def format_table(runs: Iterable[Mapping[str, Any]]) -> str:
    """Render runs as a plain-text table."""
    rows: list[Sequence[str]] = [[name.replace("_", " ") for name in COLUMNS], *(cells_of(run) for run in runs)]
    widths = [max(len(row[index]) for row in rows) for index in range(len(COLUMNS))]
    lines = ("  ".join(map(str.ljust, row, widths)).rstrip() for row in rows)
    return "\n".join(lines)


def cells_of(run: Mapping[str, Any]) -> list[str]:
    """The table cells for a run."""
    return [show_duration(run) if name == "duration" else _format_cell(run.get(name)) for name in COLUMNS]


def show_duration(run: Mapping[str, Any]) -> str:
    """How long a run took, or has taken so far."""
    if run.get("started_at") is None:
        return ""
    began = datetime.fromisoformat(run["started_at"])
    ended = datetime.fromisoformat(run["finished_at"]) if run.get("finished_at") else datetime.now(UTC)
    # The client's and the server's clocks may differ.
    seconds = max((ended - began).total_seconds(), 0.0)
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _format_cell(value: Any) -> str:
    if value is None:
        return ""
    return str(value)[:19].replace("T", " ") if str(value).endswith("Z") else str(value)


def _is_notebook() -> bool:
    """Whether this process is a notebook kernel. Does not import IPython, to keep startup fast."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and hasattr(running, "kernel")


if TYPE_CHECKING:
    pass


class Text(str):
    """Text that a notebook displays without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Preview:
    """The plan for a run that has not been submitted."""

    def __init__(self, title: str, data: Mapping[str, Any], actions: PreviewActions) -> None:
        self.title, self.data, self.plan = title, dict(data), read_plan(data)
        self.token: str | None = data.get("token")
        self._actions = actions

    @property
    def settings(self) -> dict[str, Any]:
        """All resolved settings by path."""
        return {setting.path: setting.value for setting in self.plan.settings}

    @property
    def violations(self) -> tuple[Violation, ...]:
        """The violations that would cause the run to be rejected."""
        return self.plan.violations

    @property
    def warnings(self) -> tuple[PlanWarning, ...]:
        """The plan's warnings."""
        return self.plan.warnings

    @property
    def fit(self) -> Fit:
        """Whether the run fits now, later or never."""
        return self.plan.fit

    def submit(self) -> "Run":
        """Submit the run exactly as previewed. Raises `PlanChanged` if the plan has changed.

        If only the preview's token has expired, this previews again and submits the same plan.
        """
        if self.violations:
            raise RequestRejected(self.violations)
        try:
            return self._actions.submit(self.token)
        except (PreviewOutdated, RequestRejected) as error:
            if isinstance(error, RequestRejected) and [item.rule for item in error.violations] != ["plan_token"]:
                raise
        latest = self._actions.repeat()
        if latest.violations:
            raise RequestRejected(latest.violations)
        if changes := find_changes(self.data, latest.data):
            raise PlanChanged(changes, latest)
        return self._actions.submit(latest.token)

    def apply(self, suggestion: Suggestion | int) -> "Run":
        """Submit the run with a suggestion applied: one of `fit.suggestions`, or its number, starting at 1."""
        chosen = choose_suggestion(self.fit.suggestions, suggestion)
        if chosen.kind == "wait":
            raise Conflict(
                "this suggestion is to wait and changes nothing",
                "submit the run unchanged; it starts as soon as it fits",
            )
        return self._actions.apply(chosen)

    def explain(self) -> Text:
        """All values with their sources, all violations, and whether the run fits."""
        lines, fit = explain_plan(self.title, self.plan), "\n".join(describe_fit(self.plan.fit))
        return Text(f"{lines}\n\n{fit}" if fit else lines)

    def __repr__(self) -> str:
        return self.explain()


def describe_fit(fit: Fit) -> Iterator[str]:
    """Describe a fit report line by line: verdict, reasons and suggestions. Empty if the fit is unknown."""
    if fit.verdict == "unknown":
        return
    yield f"Fits {fit.verdict}"
    yield from (f"  {reason}" for reason in fit.reasons)
    yield from describe_suggestions(fit.suggestions)


def choose_suggestion(suggestions: Sequence[Suggestion], suggestion: Suggestion | int) -> Suggestion:
    """Select a suggestion by number, starting at 1. Raise `NotFound` if it does not exist."""
    if isinstance(suggestion, Suggestion):
        return suggestion
    # isinstance would accept True as suggestion 1.
    if type(suggestion) is not int:
        raise Unreadable(f"{suggestion!r} is not a suggestion", "pass one of the suggestions or its number")
    if not 1 <= suggestion <= len(suggestions):
        known = f"there are {len(suggestions)}" if suggestions else "there are none"
        raise NotFound(f"suggestion {suggestion} does not exist: {known}", "list the suggestions with why()")
    return suggestions[suggestion - 1]


def describe_suggestions(suggestions: Sequence[Suggestion]) -> Iterator[str]:
    """Describe suggestions as a numbered list."""
    if suggestions:
        yield "Suggestions"
        yield from (f"  {number}. {suggestion.message}" for number, suggestion in enumerate(suggestions, 1))


def explain_plan(title: str, plan: Plan) -> str:
    """Describe a plan as text."""
    parts = [explanations.explain(plan, title)]
    if plan.violations:
        lines = [f"  {line}" for violation in plan.violations for line in explanations.format_finding(violation)]
        parts += ["", "Violations", *lines]
    return "\n".join(parts)


def read_plan(data: Mapping[str, Any]) -> Plan:
    """Parse a plan from JSON."""
    return Plan(
        settings=tuple(_read_setting(setting) for setting in data["settings"]),
        warnings=tuple(map(_read_warning, data["warnings"])),
        violations=tuple(Violation(**_read_finding(violation)) for violation in data["violations"]),
        manifests=tuple(data["manifests"]),
        fit=read_fit(data["fit"]),
    )


def read_fit(data: Mapping[str, Any]) -> Fit:
    """Parse a fit from JSON."""
    suggestions = tuple(Suggestion(**suggestion) for suggestion in data["suggestions"])
    return Fit(data["verdict"], tuple(data["nodes"]), tuple(data["reasons"]), suggestions, data["counts"])


def _read_warning(data: Mapping[str, Any]) -> PlanWarning:
    return PlanWarning(**_read_finding(data), requested=_read_sourced_value(data.get("requested")))


def _read_setting(data: Mapping[str, Any]) -> Setting:
    lists = {
        name: tuple(_read_sourced_value(item) for item in data.get(name, ())) for name in ("overridden", "combined")
    }
    return Setting(data["path"], data["value"], _read_source(data["source"]), reason=data.get("reason"), **lists)  # type: ignore[arg-type]


def _read_sourced_value(data: Mapping[str, Any] | None) -> SourcedValue | None:
    return None if data is None else SourcedValue(data["value"], _read_source(data["source"]))


def _read_finding(data: Mapping[str, Any]) -> dict[str, Any]:
    source = data.get("source")
    named = {name: data.get(name) for name in ("path", "rule", "message", "hint", "location")}
    return {**named, "source": None if source is None else _read_source(source)}


def _read_source(data: Mapping[str, Any]) -> Source:
    return Source(**{**data, "layer": Layer(data["layer"])})


@dataclass(frozen=True)
class LogLine:
    """A chunk of output that a run wrote to stdout or stderr, usually one line."""

    at: datetime
    stream: str
    data: bytes
    end: int  # the cursor of the next chunk

    @property
    def text(self) -> str:
        """The chunk as text; invalid UTF-8 is replaced."""
        return self.data.decode("utf-8", "replace")


class Run:
    """A run, with the attributes from the server's last response."""

    def __init__(self, api: ApiClient, data: Mapping[str, Any], tag: str | None = None) -> None:
        # `_tag` is the ETag of `_data`; the server uses it to wait for the next change. None: not known yet.
        self._api, self._data, self._tag = api, dict(data), tag

    @property
    def id(self) -> str:
        """The run ID."""
        return str(self._data["id"])

    @property
    def function(self) -> str:
        """The name of the executed function."""
        return str(self._data["function"])

    @property
    def project(self) -> str:
        """The name of the project."""
        return str(self._data["scope"]).partition("/")[2]

    @property
    def state(self) -> State:
        """The current state, loaded from the server unless the run has ended."""
        return State(self.refresh()._data["state"])

    @property
    def reason(self) -> str:
        """The reason for the state, as a CamelCase word for programs."""
        return str(self.refresh()._data["reason"])

    @property
    def message(self) -> str:
        """The reason for the state, as a sentence."""
        return str(self.refresh()._data["message"])

    @property
    def exit_code(self) -> int | None:
        """The exit code, or None while the run is active."""
        code: int | None = self.refresh()._data["exit_code"]
        return code

    @property
    def data(self) -> dict[str, Any]:
        """The run as JSON."""
        return dict(self._data)

    @property
    def result(self) -> Any:
        """The return value. Raise `RunFailed` if the run did not complete, and `Conflict` while it is active."""
        outcome = self._api.get(path_of("runs", self.id, "result"))
        if outcome["state"] != State.COMPLETED:
            raise RunFailed(self.id, outcome["state"], outcome["reason"], outcome["message"], outcome["error"])
        result = outcome["result"]
        if result is None:
            return None
        if result["kind"] == "json":
            return result["value"]
        # Large values and bytes are stored as an output file.
        content = self.read(result["path"])
        return json.loads(content) if result["type"] == "json" else content

    def refresh(self) -> "Run":
        """Load the current state from the server."""
        # A run that has ended does not change, so reading its attributes needs no request.
        if self._data["active"]:
            self._data, self._tag = self._api.watch(path_of("runs", self.id), None, 0)
        return self

    def wait(self, timeout: float | None = None, *, progress: bool = True) -> "Run":
        """Wait until the run has ended, showing progress. Raise TimeoutError after `timeout` seconds."""
        return self._wait_while(lambda: bool(self._data["active"]), timeout, progress)

    def wait_for_start(self, timeout: float | None = None, *, progress: bool = True) -> "Run":
        """Wait until the run is running or has ended. Raise TimeoutError after `timeout` seconds."""
        return self._wait_while(lambda: self._data["state"] in WAITING, timeout, progress)

    def _wait_while(self, waits: Callable[[], bool], timeout: float | None, progress: bool) -> "Run":
        until = None if timeout is None else time.monotonic() + timeout
        # Without an ETag, the server responds immediately, because it cannot wait for a change.
        if self._tag is None:
            self._watch(0)
        shown = Progress(quiet=not progress)
        try:
            while waits():
                shown.update(self._data)
                left = PATIENCE_SECONDS if until is None else until - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"run {self.id} is still {self._data['state']} after {timeout} s")
                # Wait at least a second, because a wait of 0 seconds would poll without a pause.
                self._watch(max(1, min(MAX_WAIT, int(left))), min(left, PATIENCE_SECONDS))
            shown.update(self._data)
        finally:
            shown.finish()
        return self

    @overload
    def logs(self, *, attempt: int | None = None) -> Text: ...
    @overload
    def logs(self, *, follow: bool, attempt: int | None = None) -> Text | None: ...
    def logs(self, *, follow: bool = False, attempt: int | None = None) -> Text | None:
        """The log of the last attempt, or of `attempt`. With `follow`, print the log until the run ends."""
        if not follow:
            return Text("".join(line.text for line in self.read_logs(attempt=attempt)))
        for line in self.read_logs(follow=True, attempt=attempt):
            stream = sys.stderr if line.stream == "stderr" else sys.stdout
            stream.write(line.text)
            stream.flush()
        return None

    def read_logs(
        self, *, follow: bool = False, cursor: int | None = None, attempt: int | None = None
    ) -> Iterator[LogLine]:
        """Iterate over the log. With `follow`, continue until the run ends, even if the server restarts.

        It starts with the last attempt and continues with later ones. `cursor=0` starts with the first attempt.
        """
        complete = False
        while not complete:
            page = self._api.get(path_of("runs", self.id, "logs"), **_without_none(cursor=cursor, attempt=attempt))
            yield from map(_read_line, page["entries"])
            # Without `follow`, an empty page marks the end of what has been written so far.
            cursor, complete = page["cursor"], page["complete"] or not (follow or page["entries"])
            if follow and not complete:
                # The stream ends when the server restarts. The loop then continues from the last cursor.
                for entry in self._follow(page["cursor"], attempt):
                    cursor = entry["cursor"]
                    yield _read_line(entry)
        # The log can be complete before the final state is stored.
        if follow and attempt is None:
            self.wait(progress=False)

    def attempts(self) -> list[dict[str, Any]]:
        """All attempts, oldest first."""
        attempts: list[dict[str, Any]] = self._api.get(path_of("runs", self.id, "attempts"))
        return attempts

    @property
    def url(self) -> str:
        """The URL of a served run for programs with a token. Raise `Conflict` if the run serves nothing."""
        return str(self._api.get(path_of("runs", self.id, "url"))["url"])

    def call(
        self, path: str = "", json: Any = None, *, method: str = "POST", timeout: float = CALL_SECONDS, **options: Any
    ) -> Any:
        """Send a request to a served run, and return JSON data, text or bytes. Waits while the run starts.

        Other keyword arguments are passed to httpx2: `params`, `headers`, `content`, `files`.
        """
        if self._data["state"] in WAITING:
            self.wait_for_start()
        arguments = options if json is None else {**options, "json": json}
        return read_content(self._api.call(self.id, path, method, timeout=timeout, **arguments))

    def open(self) -> str:
        """Open the served run in a browser. Return the URL, which works once and expires after a minute."""
        url = str(self._api.post(path_of("runs", self.id, "open"), None)["url"])
        api_client.open_in_browser(url)
        return url

    def stop(self) -> "Run":
        """Stop the run. Does nothing if it has ended."""
        # post() returns no ETag, so the next wait reads the run first.
        self._data, self._tag = self._api.post(path_of("runs", self.id, "stop"), {}), None
        return self

    def delete(self) -> None:
        """Delete the run. It must have ended."""
        self._api.delete(path_of("runs", self.id))

    def explain(self) -> Text:
        """All values of the run with their sources."""
        plan = read_plan(self._api.get(path_of("runs", self.id, "explain")))
        lines = explain_plan(f"{self._data['action']} {self.function} in project {self.project}", plan)
        return Text("\n\n".join(filter(None, [lines, "\n".join(describe_fit(plan.fit))])))

    def why(self) -> "Why":
        """Explain the state of the run, with suggestions if it is waiting."""
        return Why(self, self._api.get(path_of("runs", self.id, "why")))

    def change(self, change: Mapping[str, Any], project: str | None = None) -> "Run":
        """Replace this waiting run with one that has changed values. None removes a field."""
        body = {"change": dict(change)} | ({"project": project} if project is not None else {})
        return Run(self._api, self._api.post(path_of("runs", self.id, "change"), body))

    def events(self) -> list[dict[str, Any]]:
        """The state changes, oldest first."""
        events: list[dict[str, Any]] = self._api.get(path_of("runs", self.id, "events"))
        return events

    def usage(self, *, attempt: int | None = None) -> dict[str, Any]:
        """The resource usage of the last attempt, or of `attempt`: maxima in `peaks`, samples in `series`."""
        usage: dict[str, Any] = self._api.get(path_of("runs", self.id, "usage"), **_without_none(attempt=attempt))
        return usage

    def files(self, *, attempt: int | None = None) -> list[dict[str, Any]]:
        """The files that the last attempt, or `attempt`, wrote to $FAIRLEAD_OUTPUT."""
        files: list[dict[str, Any]] = self._api.get(path_of("runs", self.id, "files"), **_without_none(attempt=attempt))
        return files

    def read(self, path: str, *, attempt: int | None = None) -> bytes:
        """Read an output file into memory."""
        with self._open(path, attempt) as answer:
            content: bytes = answer.read()
            return content

    def download(self, path: str, to: str | os.PathLike[str] | None = None, *, attempt: int | None = None) -> Path:
        """Download an output file, by default under its own name."""
        file = Path(to if to is not None else Path(path).name)
        # An interrupted download must not leave an incomplete file under the final name.
        partial = file.with_name(f".{file.name}.part")
        with self._open(path, attempt) as answer, partial.open("wb") as opened:
            for chunk in answer.iter_bytes():
                opened.write(chunk)
        return partial.replace(file)

    def repeat(self) -> "Run":
        """Submit a new run with the same code and request."""
        request = self._api.get(path_of("runs", self.id, "request"))
        return Run(self._api, self._api.post(path_of("projects", self.project, "runs"), request))

    def _watch(self, seconds: int, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Wait for a change to the run. Retries while the server is unavailable, because the run continues."""
        until = time.monotonic() + patience_seconds
        while True:
            try:
                data, self._tag = self._api.watch(path_of("runs", self.id), self._tag, seconds)
                # None means 304 Not Modified.
                self._data = data or self._data
                return
            except Unavailable:
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)
                self._api = api_client.renew_client(self._api)

    def _open(self, path: str, attempt: int | None) -> AbstractContextManager[Any]:
        return self._api.stream(path_of("runs", self.id, "files", path), **_without_none(attempt=attempt))

    def _follow(self, cursor: int, attempt: int | None) -> Iterator[dict[str, Any]]:
        parameters = _without_none(cursor=cursor, attempt=attempt, follow=True)
        try:
            with self._api.stream(path_of("runs", self.id, "logs"), **parameters) as answer:
                for line in answer.iter_lines():
                    if line == "event: error":
                        return  # the next request raises the error
                    if line.startswith("data: ") and (entry := json.loads(line.removeprefix("data: "))):
                        yield entry
        except Unavailable:
            self._watch(1)  # waits until the server is back

    def __repr__(self) -> str:
        return f"<run {self.id} of {self.function}: {self._data['state']}>"

    def _repr_html_(self) -> str:
        return render_table([self._data])


class Why(Text):
    """An explanation of a run's state as text, with the full response in `data`."""

    data: dict[str, Any]
    _run: Run

    def __new__(cls, run: Run, data: Mapping[str, Any]) -> "Why":
        details = [*data["details"], *_describe_ahead(data["ahead_runs"], data["ahead"])]
        lines = [f"{data['state']}: {data['message']}", *(f"  {detail}" for detail in details)]
        suggestions = describe_suggestions(read_fit(data["fit"]).suggestions)
        # A str is immutable, so its text is passed to __new__ and not to __init__.
        made = super().__new__(cls, "\n".join([*lines, *suggestions]))
        made.data, made._run = dict(data), run
        return made

    @property
    def fit(self) -> Fit:
        """Whether the run would fit now, later or never."""
        return read_fit(self.data["fit"])

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """Changes that would make the run fit now, smallest first."""
        return self.fit.suggestions

    def apply(self, suggestion: Suggestion | int) -> Run:
        """Apply a suggestion, given as an object or by number (from 1). Return the run that replaces this one."""
        chosen = choose_suggestion(self.suggestions, suggestion)
        if chosen.kind == "wait":
            raise Conflict(
                f"this suggestion changes nothing: {chosen.message}", "wait: the run starts when that run has ended"
            )
        return self._run.change(chosen.change, chosen.project)


def _describe_ahead(visible: Sequence[Mapping[str, str]], ahead: int) -> Iterator[str]:
    """The names of the visible runs that are ahead in the queue, and the number of others."""
    if visible:
        others = f" and {ahead - len(visible):,} more" if ahead > len(visible) else ""
        yield f"ahead of it: {', '.join(run['name'] for run in visible)}{others}"


class Runs(Sequence[Run]):
    """A list of runs that is displayed as a table."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = list(runs)

    @overload
    def __getitem__(self, index: int) -> Run: ...
    @overload
    def __getitem__(self, index: slice) -> "Runs": ...
    def __getitem__(self, index: int | slice) -> "Run | Runs":
        return Runs(self._runs[index]) if isinstance(index, slice) else self._runs[index]

    def __len__(self) -> int:
        return len(self._runs)

    def __repr__(self) -> str:
        return format_table(run.data for run in self._runs)

    def _repr_html_(self) -> str:
        return render_table(run.data for run in self._runs)


def _without_none(**parameters: Any) -> dict[str, Any]:
    """The parameters that are not None."""
    return {name: value for name, value in parameters.items() if value is not None}


def _read_line(entry: Mapping[str, Any]) -> LogLine:
    data = base64.b64decode(entry["base64"]) if "base64" in entry else entry["text"].encode()
    return LogLine(datetime.fromisoformat(entry["at"]), entry["stream"], data, entry["cursor"])
