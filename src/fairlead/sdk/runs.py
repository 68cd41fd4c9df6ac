"""Runs, as Python sees them."""

import base64
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, overload

from fairlead.errors import Conflict, RunFailed, Unavailable
from fairlead.model.plans import Fit, Suggestion
from fairlead.model.states import State
from fairlead.sdk import api_client, opening, showing
from fairlead.sdk.api_client import ApiClient, path_of, read_content
from fairlead.sdk.plans import Text, choose, describe_fit, describe_suggestions, explain, read_fit, read_plan

WAITING = (State.QUEUED, State.PENDING, State.STARTING)
LONGEST_WAIT = 30
CALL_SECONDS = 90.0  # of silence: for longer, no server waits for a run
PATIENCE_SECONDS = 60.0  # a server that is started anew is back by then


@dataclass(frozen=True)
class LogLine:
    """What a run wrote to one of its streams at one moment; seldom more than a line."""

    at: datetime
    stream: str
    data: bytes
    end: int  # the cursor of what follows

    @property
    def text(self) -> str:
        """As text; bytes that are none become what stands for them."""
        return self.data.decode("utf-8", "replace")


class Run:
    """One run. What it says of itself is as of the last time that the server was asked."""

    def __init__(self, api: ApiClient, data: Mapping[str, Any], tag: str | None = None) -> None:
        self._api, self._data, self._tag = api, dict(data), tag

    @property
    def id(self) -> str:
        """The id of the run."""
        return str(self._data["id"])

    @property
    def function(self) -> str:
        """The name of the function that it executes."""
        return str(self._data["function"])

    @property
    def project(self) -> str:
        """The project that it is in."""
        return str(self._data["scope"]).partition("/")[2]

    @property
    def state(self) -> State:
        """How far it is, as the server says now; a run that has ended stays as it is."""
        return State(self.refresh()._data["state"])

    @property
    def reason(self) -> str:
        """Why, in a word that a program can match."""
        return str(self.refresh()._data["reason"])

    @property
    def message(self) -> str:
        """Why, in a sentence."""
        return str(self.refresh()._data["message"])

    @property
    def exit_code(self) -> int | None:
        """With what it exited, once it has."""
        code: int | None = self.refresh()._data["exit_code"]
        return code

    @property
    def data(self) -> dict[str, Any]:
        """Everything that the server says of it."""
        return dict(self._data)

    @property
    def result(self) -> Any:
        """What the function returned. Raise `RunFailed` where it did not, and `Conflict` where it still runs."""
        outcome = self._api.get(path_of("runs", self.id, "result"))
        if outcome["state"] != State.COMPLETED:
            raise RunFailed(self.id, outcome["state"], outcome["reason"], outcome["message"], outcome["error"])
        kept = outcome["result"]
        if kept is None:
            return None
        if kept["kind"] == "json":
            return kept["value"]
        content = self.read(kept["path"])
        return json.loads(content) if kept["type"] == "json" else content

    def refresh(self) -> "Run":
        """Ask the server how it is."""
        if self._data["active"]:
            self._data, self._tag = self._api.watch(path_of("runs", self.id), None, 0)
        return self

    def wait(self, timeout: float | None = None, *, progress: bool = True) -> "Run":
        """Until it has ended, showing how far it is. Raise TimeoutError where that takes longer than `timeout`."""
        return self._wait_while(lambda: bool(self._data["active"]), timeout, progress)

    def wait_for_start(self, timeout: float | None = None, *, progress: bool = True) -> "Run":
        """The same, until it runs or has ended."""
        return self._wait_while(lambda: self._data["state"] in WAITING, timeout, progress)

    def _wait_while(self, waits: Callable[[], bool], timeout: float | None, progress: bool) -> "Run":
        until = None if timeout is None else time.monotonic() + timeout
        if self._tag is None:
            self._watch(0)
        shown = showing.Progress(quiet=not progress)
        try:
            while waits():
                shown.update(self._data)
                left = PATIENCE_SECONDS if until is None else until - time.monotonic()
                if left <= 0:
                    raise TimeoutError(f"run {self.id} is still {self._data['state']} after {timeout} s")
                self._watch(max(1, min(LONGEST_WAIT, int(left))), min(left, PATIENCE_SECONDS))
            shown.update(self._data)
        finally:
            shown.finish()
        return self

    @overload
    def logs(self, *, attempt: int | None = None) -> Text: ...
    @overload
    def logs(self, *, follow: bool, attempt: int | None = None) -> Text | None: ...
    def logs(self, *, follow: bool = False, attempt: int | None = None) -> Text | None:
        """What its last try wrote so far, or another one. With `follow`, print it as it comes until the run ends."""
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
        """What it wrote, piece by piece; with `follow`, until it ends, also when the server is started anew.

        It begins with the last try, and goes on with those that follow it; at 0, with the first one.
        """
        complete = False
        while not complete:
            page = self._api.get(path_of("runs", self.id, "logs"), **_said(cursor=cursor, attempt=attempt))
            yield from map(_read_line, page["entries"])
            cursor, complete = page["cursor"], page["complete"] or not (follow or page["entries"])
            if follow and not complete:
                for entry in self._follow(page["cursor"], attempt):
                    cursor = entry["cursor"]
                    yield _read_line(entry)
        if follow and attempt is None:
            self.wait(progress=False)

    def attempts(self) -> list[dict[str, Any]]:
        """Its tries, the first one first: how each ended, and how far the last one is."""
        found: list[dict[str, Any]] = self._api.get(path_of("runs", self.id, "attempts"))
        return found

    @property
    def url(self) -> str:
        """Where programs reach what it serves, with a token. Raise `Conflict` where it serves nothing."""
        return str(self._api.get(path_of("runs", self.id, "url"))["url"])

    def call(
        self, path: str = "", json: Any = None, *, method: str = "POST", timeout: float = CALL_SECONDS, **options: Any
    ) -> Any:
        """What it answers at a path: data where that is JSON, text, or bytes. One that starts is waited for.

        What else httpx2 takes can be said as well: `params`, `headers`, `content`, `files`.
        """
        if self._data["state"] in WAITING:
            self.wait_for_start()
        said = options if json is None else {**options, "json": json}
        return read_content(self._api.call(self.id, path, method, timeout=timeout, **said))

    def open(self) -> str:
        """Open it in a browser, where one can be opened here; the address, which works once and within a minute."""
        url = str(self._api.post(path_of("runs", self.id, "open"), None)["url"])
        opening.show(url)
        return url

    def stop(self) -> "Run":
        """Say that it is to end. One that has ended stays as it is."""
        self._data, self._tag = self._api.post(path_of("runs", self.id, "stop"), {}), None
        return self

    def delete(self) -> None:
        """Forget it, once it has ended."""
        self._api.delete(path_of("runs", self.id))

    def explain(self) -> Text:
        """Every value that it runs with, who set it and whom it overrode."""
        plan = read_plan(self._api.get(path_of("runs", self.id, "explain")))
        told = explain(f"{self._data['action']} {self.function} in project {self.project}", plan)
        return Text("\n\n".join(filter(None, [told, "\n".join(describe_fit(plan.fit))])))

    def why(self) -> "Why":
        """Why it is where it is, and what would help."""
        return Why(self, self._api.get(path_of("runs", self.id, "why")))

    def change(self, change: Mapping[str, Any], project: str | None = None) -> "Run":
        """Put a run with other values in the place of this one, while it waits. A null leaves a field out."""
        body = {"change": dict(change)} | ({"project": project} if project is not None else {})
        return Run(self._api, self._api.post(path_of("runs", self.id, "change"), body))

    def events(self) -> list[dict[str, Any]]:
        """What happened to it, the oldest first."""
        found: list[dict[str, Any]] = self._api.get(path_of("runs", self.id, "events"))
        return found

    def usage(self, *, attempt: int | None = None) -> dict[str, Any]:
        """What its last try uses, or another one: the most of each resource in `peaks`, samples in `series`."""
        found: dict[str, Any] = self._api.get(path_of("runs", self.id, "usage"), **_said(attempt=attempt))
        return found

    def files(self, *, attempt: int | None = None) -> list[dict[str, Any]]:
        """The files that its last try left in $FAIRLEAD_OUTPUT, or another one."""
        found: list[dict[str, Any]] = self._api.get(path_of("runs", self.id, "files"), **_said(attempt=attempt))
        return found

    def read(self, path: str, *, attempt: int | None = None) -> bytes:
        """A file that it left, in memory."""
        with self._open(path, attempt) as answer:
            content: bytes = answer.read()
            return content

    def download(self, path: str, to: str | os.PathLike[str] | None = None, *, attempt: int | None = None) -> Path:
        """A file that it left, on this machine; under its own name where no other is said."""
        file = Path(to if to is not None else Path(path).name)
        aside = file.with_name(f".{file.name}.part")
        with self._open(path, attempt) as answer, aside.open("wb") as opened:
            for chunk in answer.iter_bytes():
                opened.write(chunk)
        return aside.replace(file)

    def repeat(self) -> "Run":
        """Submit it again, with the same code and the same request."""
        request = self._api.get(path_of("runs", self.id, "request"))
        return Run(self._api, self._api.post(path_of("projects", self.project, "runs"), request))

    def _watch(self, seconds: int, patience_seconds: float = PATIENCE_SECONDS) -> None:
        """Until something changes. A server that is away for a while does not end the waiting: the run goes on."""
        until = time.monotonic() + patience_seconds
        while True:
            try:
                data, self._tag = self._api.watch(path_of("runs", self.id), self._tag, seconds)
                self._data = data or self._data
                return
            except Unavailable:
                if time.monotonic() > until:
                    raise
                time.sleep(0.5)
                self._api = api_client.renew(self._api)

    def _open(self, path: str, attempt: int | None) -> AbstractContextManager[Any]:
        return self._api.stream(path_of("runs", self.id, "files", path), **_said(attempt=attempt))

    def _follow(self, cursor: int, attempt: int | None) -> Iterator[dict[str, Any]]:
        said = _said(cursor=cursor, attempt=attempt, follow=True)
        try:
            with self._api.stream(path_of("runs", self.id, "logs"), **said) as answer:
                for line in answer.iter_lines():
                    if line == "event: error":
                        return  # who asks again is told what it is
                    if line.startswith("data: ") and (entry := json.loads(line.removeprefix("data: "))):
                        yield entry
        except Unavailable:
            self._watch(1)  # which waits for the server to be back

    def __repr__(self) -> str:
        return f"<run {self.id} of {self.function}: {self._data['state']}>"

    def _repr_html_(self) -> str:
        return showing.render_table([self._data])


class Why(Text):
    """Why a run is where it is, to be read, with all that the server says in `data`."""

    data: dict[str, Any]
    _run: Run

    def __new__(cls, run: Run, data: Mapping[str, Any]) -> "Why":
        told = [f"{data['state']}: {data['message']}", *(f"  {detail}" for detail in data["details"])]
        ways = describe_suggestions(read_fit(data["fit"]).suggestions)
        made = super().__new__(cls, "\n".join([*told, *ways]))
        made.data, made._run = dict(data), run
        return made

    @property
    def fit(self) -> Fit:
        """Whether it would run now, later or never."""
        return read_fit(self.data["fit"])

    @property
    def suggestions(self) -> tuple[Suggestion, ...]:
        """What would make it run now, the cheapest first."""
        return self.fit.suggestions

    def apply(self, suggestion: Suggestion | int) -> Run:
        """Take a suggestion, or that of a number from 1 on: another run takes the place of this one, and is returned."""
        way = choose(self.suggestions, suggestion)
        if way.kind == "wait":
            raise Conflict(f"there is nothing to change: {way.message}", "it starts when that run has ended")
        return self._run.change(way.change, way.project)


class Runs(Sequence[Run]):
    """Runs as a list, and as a table where somebody looks at it."""

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
        return showing.format_table(run.data for run in self._runs)

    def _repr_html_(self) -> str:
        return showing.render_table(run.data for run in self._runs)


def _said(**parameters: Any) -> dict[str, Any]:
    """Those parameters that are not left out."""
    return {name: value for name, value in parameters.items() if value is not None}


def _read_line(entry: Mapping[str, Any]) -> LogLine:
    data = base64.b64decode(entry["base64"]) if "base64" in entry else entry["text"].encode()
    return LogLine(datetime.fromisoformat(entry["at"]), entry["stream"], data, entry["cursor"])
