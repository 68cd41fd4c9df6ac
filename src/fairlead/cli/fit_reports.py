"""Print fit reports: the verdict, then nodes with their reasons."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from fairlead.cli.printing import count, print_violations
from fairlead.cli.tables import format_cell, format_table
from fairlead.model.plans import Suggestion, Violation
from fairlead.planning.descriptions import format_list
from fairlead.sdk.plans import describe_suggestions

NOW = "now"
MAX_SHOWN = 5  # nodes in the table; --all-nodes shows all of them
MAX_NAMED = 4  # nodes in a sentence

JSON = Mapping[str, Any]


def print_fit_report(report: JSON, *, all_nodes: bool = False) -> int:
    """Print a fit report. Return the exit code, 0 if the run fits now."""
    _print_changes(report["what_if"])
    if report["violations"]:
        sys.stdout.flush()  # stdout is buffered and stderr is not, so lines could be out of order
        return _refuse(report["violations"])
    _say(f"{report['verdict']}: {_sum_up(report)}")
    if report["counts"] and report["verdict"] != NOW:
        _say(f"of {_describe_counts(report['counts'])}")
    shown = report["nodes"] if all_nodes else _choose_nearest(report)
    if shown:
        print()
        _print_rows(["NODE", "FITS", "WHY NOT"], [([node["name"], node["fits"]], node["reasons"]) for node in shown])
    if not all_nodes:
        _print_rest(report, len(shown))
    if suggestions := list(describe_suggestions([Suggestion(**suggestion) for suggestion in report["suggestions"]])):
        print()
        for line in suggestions:
            _say(line)
    return 0 if report["verdict"] == NOW else 1


def print_offers(changes: JSON, offers: Sequence[JSON]) -> int:
    """Print whether a run fits with each compute resource, and how many such runs fit."""
    _print_changes(changes)
    rows = [([offer["name"], _show_verdict(offer), _show_room(offer)], _reasons_of(offer)) for offer in offers]
    _print_rows(["COMPUTE RESOURCE", "FITS", "ROOM FOR", "WHY NOT"], rows)
    return 0


def print_placed(changes: JSON, placed: Sequence[JSON]) -> int:
    """Print whether pending pods fit. Return the exit code, 0 if all of them do."""
    _print_changes(changes)
    fitting = sum(pod["verdict"] == NOW for pod in placed)
    print(f"{fitting} of {count(len(placed), 'pending pod')} would be scheduled now")
    if placed:
        print()
        rows = [([pod["pod"], pod["verdict"], pod["node"]], pod["reasons"]) for pod in placed]
        _print_rows(["POD", "FITS", "NODE", "WHY NOT"], rows)
    return 0 if fitting == len(placed) else 1


def _print_changes(changes: JSON) -> None:
    for sentence in changes["sentences"]:
        _say(f"what if: {sentence}")


def _print_rest(report: JSON, shown: int) -> None:
    """Mention the nodes that are not listed."""
    now = report["verdict"] == NOW
    rest = sum(report["counts"].values()) - (report["counts"][NOW] if now else shown)
    if rest:
        others = f"{count(rest, 'other')} {'does' if rest == 1 else 'do'} not"
        print(f"{others if now else count(rest, 'more node')}: use --all-nodes to see why")


def _refuse(violations: Iterable[JSON]) -> int:
    return print_violations(
        [Violation(*(violation[name] for name in ("path", "rule", "message", "hint"))) for violation in violations]
    )


def _sum_up(report: JSON) -> str:
    if report["verdict"] != NOW:
        return "; ".join(report["reasons"])
    fitting, total = report["counts"][NOW], sum(report["counts"].values())
    named = [node["name"] for node in report["nodes"] if node["fits"]]
    # The report contains only the closest nodes. Empty names let format_list count the others.
    names = format_list([*named, *[""] * (fitting - len(named))], most=MAX_NAMED)
    runs = f"such run{'' if report['room'] == 1 else 's'}"
    return f"fits on {fitting} of {count(total, 'node')} ({names}); room for {_show_room(report)} {runs}"


def _choose_nearest(report: JSON) -> Sequence[JSON]:
    """The most useful nodes: those where the run fits later, or else the first ones; none if the run fits now."""
    if report["verdict"] == NOW:
        return ()
    could = report["counts"].get(NOW, 0) + report["counts"].get("later", 0)
    # Suitable nodes come first. If there are none, a few unsuitable ones are shown as examples.
    most = min(could or MAX_SHOWN, MAX_SHOWN)
    return list(report["nodes"][:most])


def _describe_counts(counts: Mapping[str, int]) -> str:
    later, never = counts["later"], counts["never"]
    return f"{count(sum(counts.values()), 'node')}, {counts[NOW]} fit now, {later} later and {never} never"


def _show_verdict(offer: JSON) -> str:
    return "refused" if offer["violations"] else str(offer["verdict"])


def _show_room(report: JSON) -> str:
    room = report["room"]
    return "-" if room is None else "1000 or more" if room >= 1000 else str(room)


def _reasons_of(offer: JSON) -> list[str]:
    return [violation["message"] for violation in offer["violations"]] or offer["reasons"]


def _print_rows(heading: Sequence[str], rows: Iterable[tuple[Sequence[Any], Sequence[str]]]) -> None:
    """Print rows with one line per reason. Reasons are never truncated."""
    now, empty = datetime.now(UTC), [""] * (len(heading) - 1)
    lines: list[list[str]] = [list(heading)]
    for cells, reasons in rows:
        first, *more = [format_cell(reason, now) for reason in reasons] or ["-"]
        lines.append([*(format_cell(cell, now) for cell in cells), first])
        lines += [[*empty, reason] for reason in more]
    print("\n".join(format_table(lines)))


def _say(line: str) -> None:
    # Escapes control characters: names from files and clusters can contain any text.
    print(format_cell(line, datetime.now(UTC)))
