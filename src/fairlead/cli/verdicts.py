"""How the terminal tells whether something would run: the verdict in a sentence, then nodes with their reasons."""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from fairlead.cli.printing import count, print_violations
from fairlead.cli.tables import format_cell, format_table
from fairlead.core.descriptions.facts import listed
from fairlead.model.plans import Suggestion, Violation
from fairlead.sdk.plans import describe_suggestions

NOW = "now"
MOST_SHOWN = 5
MOST_NAMED = 4

JSON = Mapping[str, Any]


def print_survey(survey: JSON, *, all_nodes: bool = False) -> int:
    """The answer to one request, and the exit code: 0 where it would run now."""
    _print_supposed(survey["supposed"])
    if survey["violations"]:
        sys.stdout.flush()
        return _refuse(survey["violations"])
    _say(f"{survey['verdict']}: {_sum_up(survey)}")
    if survey["counts"] and survey["verdict"] != NOW:
        _say(f"of {_describe_counts(survey['counts'])}")
    shown = survey["nodes"] if all_nodes else _choose_nearest(survey)
    if shown:
        print()
        _print_rows(["NODE", "FITS", "WHY NOT"], [([node["name"], node["fits"]], node["reasons"]) for node in shown])
    if not all_nodes:
        _print_rest(survey, len(shown))
    if ways := list(describe_suggestions([Suggestion(**way) for way in survey["suggestions"]])):
        print()
        for line in ways:
            _say(line)
    return 0 if survey["verdict"] == NOW else 1


def print_offers(supposed: JSON, offers: Sequence[JSON]) -> int:
    """Of each compute resource whether a run with it alone would fit, and how many of them."""
    _print_supposed(supposed)
    rows = [([offer["name"], _show_verdict(offer), _show_room(offer)], _reasons_of(offer)) for offer in offers]
    _print_rows(["COMPUTE RESOURCE", "FITS", "ROOM FOR", "WHY NOT"], rows)
    return 0


def print_placed(supposed: JSON, placed: Sequence[JSON]) -> int:
    """What becomes of pods that wait, and the exit code: 0 where each of them has a place."""
    _print_supposed(supposed)
    fitting = sum(pod["verdict"] == NOW for pod in placed)
    print(f"{fitting} of {count(len(placed), 'pending pod')} would be placed now")
    if placed:
        print()
        rows = [([pod["pod"], pod["verdict"], pod["node"]], pod["reasons"]) for pod in placed]
        _print_rows(["POD", "FITS", "NODE", "WHY NOT"], rows)
    return 0 if fitting == len(placed) else 1


def _print_supposed(supposed: JSON) -> None:
    for sentence in supposed["sentences"]:
        _say(f"supposed: {sentence}")


def _print_rest(survey: JSON, shown: int) -> None:
    """That there are nodes of which nothing was said."""
    now = survey["verdict"] == NOW
    rest = sum(survey["counts"].values()) - (survey["counts"][NOW] if now else shown)
    if rest:
        others = f"{count(rest, 'other')} {'does' if rest == 1 else 'do'} not"
        print(f"{others if now else count(rest, 'more node')}: --all-nodes says why")


def _refuse(violations: Iterable[JSON]) -> int:
    return print_violations(
        [Violation(*(said[name] for name in ("path", "rule", "message", "hint"))) for said in violations]
    )


def _sum_up(survey: JSON) -> str:
    if survey["verdict"] != NOW:
        return "; ".join(survey["reasons"])
    fitting, total = survey["counts"][NOW], sum(survey["counts"].values())
    named = [node["name"] for node in survey["nodes"] if node["fits"]]
    names = listed([*named, *[""] * (fitting - len(named))], most=MOST_NAMED)
    runs = f"such run{'' if survey['room'] == 1 else 's'}"
    verb = "takes" if fitting == 1 else "take"
    return f"{fitting} of {count(total, 'node')} {verb} it ({names}); there is room for {_show_room(survey)} {runs}"


def _choose_nearest(survey: JSON) -> Sequence[JSON]:
    """The nodes that say most: those that could take it later, or else the first ones; none where it runs now."""
    if survey["verdict"] == NOW:
        return ()
    could = survey["counts"].get(NOW, 0) + survey["counts"].get("later", 0)
    most = min(could or MOST_SHOWN, MOST_SHOWN)
    return list(survey["nodes"][:most])


def _describe_counts(counts: Mapping[str, int]) -> str:
    later, never = counts["later"], counts["never"]
    return f"{count(sum(counts.values()), 'node')}, {counts[NOW]} take it now, {later} could later and {never} never"


def _show_verdict(offer: JSON) -> str:
    return "refused" if offer["violations"] else str(offer["verdict"])


def _show_room(survey: JSON) -> str:
    room = survey["room"]
    return "-" if room is None else "1000 or more" if room >= 1000 else str(room)


def _reasons_of(offer: JSON) -> list[str]:
    return [found["message"] for found in offer["violations"]] or offer["reasons"]


def _print_rows(heading: Sequence[str], rows: Iterable[tuple[Sequence[Any], Sequence[str]]]) -> None:
    """Rows with as many lines as they have reasons, which are never cut: they are what one looks for."""
    now, empty = datetime.now(UTC), [""] * (len(heading) - 1)
    lines: list[list[str]] = [list(heading)]
    for cells, reasons in rows:
        first, *more = [format_cell(reason, now) for reason in reasons] or ["-"]
        lines.append([*(format_cell(cell, now) for cell in cells), first])
        lines += [[*empty, reason] for reason in more]
    print("\n".join(format_table(lines)))


def _say(line: str) -> None:
    print(format_cell(line, datetime.now(UTC)))
