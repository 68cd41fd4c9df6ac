"""`fairlead fit`: check whether a run fits now, later or never, including on hypothetical nodes."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from fairlead.cli.clusters import PROJECTS
from fairlead.cli.local_planning import Files, LocalConfig, load_config, plan_alone
from fairlead.cli.objects import Project, connect_to_server
from fairlead.cli.output import format_cell, format_count, format_table, print_violations, print_warnings
from fairlead.cli.project_objects import DEFAULT
from fairlead.cli.run_command import (
    Arguments,
    RequestOptions,
    WithRequestOptions,
    Words,
    is_request,
    name_program,
    parse_request,
    read_mapping,
)
from fairlead.errors import RequestRejected, Unreadable
from fairlead.files import inventories
from fairlead.files.inventories import Inventory
from fairlead.model.assets import ComputeResource
from fairlead.model.nodes import NodeTable
from fairlead.model.plans import FitReport, Suggestion, Violation
from fairlead.model.requests import WORKLOAD_TYPES, Action, RunRequest
from fairlead.model.scopes import Cluster
from fairlead.planning import fit_reports
from fairlead.planning.fit_reports import WhatIfCluster
from fairlead.planning.suggestions import find_suggestions
from fairlead.scheduling.reasons import format_list
from fairlead.sdk.runs import describe_suggestions

NOW = "now"
MAX_SHOWN = 5  # nodes in the table; --all-nodes shows all of them
MAX_NAMED = 4  # nodes in a sentence

JSON = Mapping[str, Any]

STDIN = Path("-")
# A placeholder function for requests without one; valid for all actions.
UNNAMED = {"name": "fit", "source": "fit.py", "handler": "main"}

Flag = Annotated[bool, Parameter(negative=(), show_default=False)]


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
    print(f"{fitting} of {format_count(len(placed), 'pending pod')} would be scheduled now")
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
        others = f"{format_count(rest, 'other')} {'does' if rest == 1 else 'do'} not"
        print(f"{others if now else format_count(rest, 'more node')}: use --all-nodes to see why")


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
    return f"fits on {fitting} of {format_count(total, 'node')} ({names}); room for {_show_room(report)} {runs}"


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
    return f"{format_count(sum(counts.values()), 'node')}, {counts[NOW]} fit now, {later} later and {never} never"


def _show_verdict(offer: JSON) -> str:
    return "rejected" if offer["violations"] else str(offer["verdict"])


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


def fit(
    request: str | None = None,
    /,
    *args: Arguments,
    options: WithRequestOptions = None,
    action: Annotated[Action | None, Parameter(show_default=False)] = None,
    project: Project = DEFAULT,
    add_nodes: Words = (),
    without: Words = (),
    all_nodes: Flag = False,
    nodes: Annotated[Sequence[Path], Parameter(negative=(), show_default=False, allow_leading_hyphen=True)] = (),
    pending: Flag = False,
    files: Annotated[Files | None, Parameter(name="*")] = None,
    as_json: Annotated[Flag, Parameter(name="--json")] = False,
) -> int:
    """Check whether a run fits now, later or never, and show all reasons. Creates nothing.

    Parameters
    ----------
    request
        A YAML file with a request, or a program, as for `fairlead run`. Default: use only the options.
    action
        The action: job, serve or workspace. Default: the request's action, or job.
    add_nodes
        Add hypothetical nodes: 2xNAME adds two empty copies of a node, node group or GPU type.
    without
        Remove a node, or all nodes of a node group or GPU type, with their pods.
    all_nodes
        List all nodes with all reasons, not only the best candidates.
    nodes
        The output of `kubectl get nodes,pods -A -o json`, or - for stdin. Works without a server.
    pending
        With --nodes: check every pending pod in the file.
    as_json
        Print the result as JSON.
    """
    options = options or RequestOptions()
    # None: nothing was requested, so all compute resources in the files are checked.
    parsed = (
        None
        if (request, args, options, action) == (None, (), RequestOptions(), None)
        else _read(request, args, options, action)
    )
    if not nodes:
        # A server uses its own nodes and configuration.
        if pending or files is not None:
            message = "--pending, --compute, --templates, --policy and --defaults require --nodes"
            raise Unreadable(message, "add --nodes FILE")
        return _ask_server(parsed, project or DEFAULT, add_nodes, without, all_nodes=all_nodes, as_json=as_json)
    if pending and parsed is not None:
        raise Unreadable("--pending cannot be combined with a request", "remove one of them")
    inventory = _load_inventory(nodes)
    config = load_config(files or Files(), project or DEFAULT)
    if config.violations:
        return print_violations(config.violations)
    print_warnings(inventory.warnings)
    config = _know_gpus(config, inventory.table)
    what_if_cluster = fit_reports.simulate_cluster(inventory.table, add_nodes, without, cluster=config.snapshot.cluster)
    if pending:
        return _print_pending(inventory, what_if_cluster, config.snapshot.cluster, as_json=as_json)
    if parsed is None:
        return _print_offers(config, what_if_cluster, inventory, as_json=as_json)
    report = _report(parsed, config, what_if_cluster, all_nodes=all_nodes)
    offered = sorted(config.snapshot.compute_resources)
    suggestions = find_suggestions(parsed, config.snapshot, what_if_cluster.table, profiles=offered)
    return _print_result(asdict(replace(report, suggestions=list(suggestions))), all_nodes=all_nodes, as_json=as_json)


def _read(request: str | None, args: Sequence[str], options: RequestOptions, action: Action | None) -> RunRequest:
    """Build the request from a file, a program and options."""
    is_file = is_request(request, options)
    mapping = read_mapping(Path(request)) if request is not None and is_file else {}
    named = None if request is None else name_program(request)
    function = mapping.pop("function", None) or _placeholder_function(None if is_file else request, named, options)
    fields = mapping if (args, options) == ((), RequestOptions()) else options.to_fields(args, mapping)
    acting = {} if action is None else {"action": action}
    return parse_request({**fields, "function": function, **acting}, request)


def _placeholder_function(program: str | None, named: str | None, options: RequestOptions) -> dict[str, Any]:
    """A placeholder function: the code does not affect the fit."""
    images = {name: value for name, value in options.images.items() if value is not None}
    if options.image is not None:
        return {"name": options.name or program or UNNAMED["name"], "kind": "container", **images}
    if program is None:
        return {**UNNAMED, "name": options.name or named or UNNAMED["name"], **images}
    source, _, handler = program.partition(":")
    if not Path(source).exists():
        raise Unreadable(f"{source} does not exist", "use a program, a YAML file with a request, or only options")
    function = {"name": options.name or named, "source": Path(source).resolve().name, **images}
    return function | ({"handler": handler} if handler else {})


def _ask_server(
    request: RunRequest | None,
    project: str,
    add_nodes: Sequence[str],
    without: Sequence[str],
    *,
    all_nodes: bool,
    as_json: bool,
) -> int:
    if request is None:
        raise Unreadable(
            "the request is empty", "specify --gpu 1, --profile NAME, a program, or a YAML file with a request"
        )
    PROJECTS.require(project)
    body = {
        "project": project,
        "request": request.to_data(),
        "add_nodes": list(add_nodes),
        "without": list(without),
        "all_nodes": all_nodes,
    }
    return _print_result(connect_to_server().post("/fit", body), all_nodes=all_nodes, as_json=as_json)


def _print_result(report: dict[str, Any], *, all_nodes: bool, as_json: bool) -> int:
    if not as_json:
        return print_fit_report(report, all_nodes=all_nodes)
    print(json.dumps(report, indent=2))
    # JSON output sets the exit code as well, so that a script can wait until a run fits.
    return 0 if report["verdict"] == "now" else 1


def _load_inventory(paths: Sequence[Path]) -> Inventory:
    """Load and merge all inventory files."""
    objects, violations = [], []
    for path in paths:
        try:
            objects += inventories.parse_objects(sys.stdin.buffer.read() if path == STDIN else path.read_bytes())
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            violations.append(Violation("", "file", f"cannot be read: {reason}", "check the path", location=str(path)))
        except Unreadable as error:
            violations.append(Violation("", "file", str(error), error.hint, location=str(path)))
    if violations:
        raise RequestRejected(violations)
    return inventories.read_inventory(objects, ", ".join(map(str, paths)))


def _know_gpus(config: LocalConfig, table: NodeTable) -> LocalConfig:
    """Detect the GPU resource from the nodes if no document sets it and the nodes have only one kind."""
    cluster = config.snapshot.cluster
    # For example, amd.com/gpu instead of a cluster's default, nvidia.com/gpu.
    named = [name for name in table.capacity if name.endswith("/gpu")]
    if config.library.of("Cluster") or len(named) != 1:
        return config
    known = cluster.model_copy(update={"gpu_resource": named[0]})
    return replace(config, snapshot=replace(config.snapshot, cluster=known))


def _report(
    request: RunRequest, config: LocalConfig, what_if_cluster: WhatIfCluster, *, all_nodes: bool = False
) -> FitReport:
    plan = plan_alone(request, config)
    return fit_reports.build_report(
        plan, what_if_cluster, autoscaled=config.snapshot.cluster.autoscaled, all_nodes=all_nodes
    )


def _print_pending(inventory: Inventory, what_if_cluster: WhatIfCluster, cluster: Cluster, *, as_json: bool) -> int:
    changes = asdict(what_if_cluster.changes)
    placed = [
        asdict(pod)
        for pod in fit_reports.schedule_all(inventory.waiting, what_if_cluster.table, autoscaled=cluster.autoscaled)
    ]
    if not as_json:
        return print_placed(changes, placed)
    print(json.dumps({"what_if": changes, "pods": placed}, indent=2))
    return 0 if all(pod["verdict"] == "now" for pod in placed) else 1


def _print_offers(config: LocalConfig, what_if_cluster: WhatIfCluster, inventory: Inventory, *, as_json: bool) -> int:
    offers = list(_report_offers(config, what_if_cluster))
    if not offers:
        waiting = f"; or --pending for the {len(inventory.waiting)} pending pods" if inventory.waiting else ""
        hint = f"specify --gpu 1, a program, a YAML file with a request, or --compute DIR{waiting}"
        raise Unreadable("the request is empty", hint)
    changes = asdict(what_if_cluster.changes)
    if not as_json:
        return print_offers(changes, offers)
    print(json.dumps({"what_if": changes, "compute_resources": offers}, indent=2))
    return 0


def _report_offers(config: LocalConfig, what_if_cluster: WhatIfCluster) -> Iterator[dict[str, Any]]:
    """For each compute resource, whether a run that requests nothing else fits."""
    for name, offer in sorted(config.snapshot.compute_resources.items()):
        fields = {"function": UNNAMED, "action": _choose_action(offer), "profile": name}
        yield {"name": name, **asdict(_report(RunRequest.model_validate(fields), config, what_if_cluster))}


def _choose_action(offer: ComputeResource) -> str:
    """An action that the compute resource allows."""
    allowed = offer.workload_types
    return next(action for action, kind in WORKLOAD_TYPES.items() if allowed is None or kind in allowed)
