"""Shows a run's progress in a terminal or notebook, and tables of runs."""

import html
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

PLAIN = ("Starting", "Running", "Completed")  # messages with these reasons add nothing to the state
COLUMNS = ("id", "function", "state", "reason", "compute_resource", "created_at", "duration")


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
    return [show_duration(run) if name == "duration" else _show(run.get(name)) for name in COLUMNS]


def show_duration(run: Mapping[str, Any]) -> str:
    """How long a run took, or has taken so far."""
    if run.get("started_at") is None:
        return ""
    began = datetime.fromisoformat(run["started_at"])
    ended = datetime.fromisoformat(run["finished_at"]) if run.get("finished_at") else datetime.now(UTC)
    # The client's and the server's clocks may differ.
    seconds = max((ended - began).total_seconds(), 0.0)
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _show(value: Any) -> str:
    if value is None:
        return ""
    return str(value)[:19].replace("T", " ") if str(value).endswith("Z") else str(value)


def _is_notebook() -> bool:
    """Whether this process is a notebook kernel. Does not import IPython, to keep startup fast."""
    shell = sys.modules.get("IPython")
    running = shell.get_ipython() if shell is not None else None
    return running is not None and hasattr(running, "kernel")
