"""`fairlead fit`: would it run now, later or never, why not, and what if there were other nodes."""

import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from fairlead.cli.grounds import Files, Ground, load_ground, plan_alone
from fairlead.cli.holdings import DEFAULT
from fairlead.cli.nouns import Project, connect
from fairlead.cli.printing import print_violations, print_warnings
from fairlead.cli.requesting import (
    Arguments,
    Wanted,
    Wanting,
    Words,
    is_request,
    name_program,
    parse_request,
    read_mapping,
)
from fairlead.cli.scopes import PROJECTS
from fairlead.cli.verdicts import print_offers, print_placed, print_survey
from fairlead.core.fitting import fit_report, pending_pods, what_if
from fairlead.core.fitting.fit_report import FitReport, WhatIfChanges
from fairlead.core.fitting.node_tables import NodeTable
from fairlead.core.fitting.what_if import WhatIfCluster
from fairlead.core.suggestions import find_suggestions
from fairlead.errors import RequestRejected, Unreadable
from fairlead.files import inventories
from fairlead.files.inventories import Inventory
from fairlead.model.compute_resources import ComputeResource
from fairlead.model.plans import Violation
from fairlead.model.requests import WORKLOAD_TYPES, Action, RunRequest
from fairlead.model.scopes import Cluster

STDIN = Path("-")
# What stands for a function where none is said: something that can be run, served and worked in.
UNNAMED = {"name": "fit", "source": "fit.py", "handler": "main"}

Flag = Annotated[bool, Parameter(negative=(), show_default=False)]


def fit(
    request: str | None = None,
    /,
    *args: Arguments,
    wanted: Wanting = None,
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
    """Say whether it would run now, later or never, and why not. Nothing is created.

    Parameters
    ----------
    request
        A YAML file with a request, or a program as `fairlead run` takes it. Left out, what options say is asked for.
    action
        What is done with it: job, serve or workspace. Left out, what the request says, or else a job.
    add_nodes
        Suppose more nodes: 2xNAME for two empty ones like a node, or like the first of a node group or GPU type.
    without
        Suppose that nodes are not there: one by its name, or all of a node group or GPU type. Their pods go too.
    all_nodes
        List every node with every reason, and not only those that come nearest.
    nodes
        A file with what `kubectl get nodes,pods -A -o json` prints, or - to read it from a pipe. No server is asked.
    pending
        With --nodes: say of each pod in the file that waits for a node whether it would get one.
    as_json
        Print the answer as JSON.
    """
    wanted = wanted or Wanted()
    asked = (
        None if (request, args, wanted, action) == (None, (), Wanted(), None) else _read(request, args, wanted, action)
    )
    if not nodes:
        if pending or files is not None:
            message = "--pending and files of definitions are for when no server is asked, and no file has the nodes"
            raise Unreadable(message, "say it: --nodes FILE")
        return _ask_server(asked, project or DEFAULT, add_nodes, without, all_nodes=all_nodes, as_json=as_json)
    if pending and asked is not None:
        raise Unreadable("--pending is about the pods in the file, and something else is asked for", "leave one out")
    inventory = _load_inventory(nodes)
    ground = load_ground(files or Files(), project or DEFAULT)
    if ground.violations:
        return print_violations(ground.violations)
    print_warnings(inventory.warnings)
    ground = _know_gpus(ground, inventory.table)
    supposed = what_if.simulate(inventory.table, add_nodes, without, cluster=ground.snapshot.cluster)
    if pending:
        return _describe_pending(inventory, supposed, ground.snapshot.cluster, as_json=as_json)
    if asked is None:
        return _describe_offers(ground, supposed, inventory, as_json=as_json)
    found = _survey(asked, ground, supposed, all_nodes=all_nodes)
    offered = sorted(ground.snapshot.compute_resources)
    ways = find_suggestions(asked, ground.snapshot, supposed.table, profiles=offered)
    return _tell(asdict(replace(found, suggestions=list(ways))), all_nodes=all_nodes, as_json=as_json)


def _read(request: str | None, args: Sequence[str], wanted: Wanted, action: Action | None) -> RunRequest:
    """What is asked for, by a file, a program, options, or all of them."""
    is_file = is_request(request, wanted)
    asked = read_mapping(Path(request)) if request is not None and is_file else {}
    named = None if request is None else name_program(request)
    function = asked.pop("function", None) or _name_function(None if is_file else request, named, wanted)
    fields = asked if (args, wanted) == ((), Wanted()) else wanted.to_fields(args, asked)
    acting = {} if action is None else {"action": action}
    return parse_request({**fields, "function": function, **acting}, request)


def _name_function(program: str | None, named: str | None, wanted: Wanted) -> dict[str, Any]:
    """A function that stands for what would run: its code has no say in where that fits."""
    images = {name: value for name, value in wanted.images.items() if value is not None}
    if wanted.image is not None:
        return {"name": wanted.name or program or UNNAMED["name"], "kind": "container", **images}
    if program is None:
        return {**UNNAMED, "name": wanted.name or named or UNNAMED["name"], **images}
    source, _, handler = program.partition(":")
    if not Path(source).exists():
        raise Unreadable(f"there is no {source}", "say a program, a YAML file with a request, or only options")
    said = {"name": wanted.name or named, "source": Path(source).resolve().name, **images}
    return said | ({"handler": handler} if handler else {})


def _ask_server(
    asked: RunRequest | None,
    project: str,
    add_nodes: Sequence[str],
    without: Sequence[str],
    *,
    all_nodes: bool,
    as_json: bool,
) -> int:
    if asked is None:
        raise Unreadable(
            "nothing is asked for", "say --gpu 1, --profile NAME, a program, or a YAML file with a request"
        )
    PROJECTS.require(project)
    body = {
        "project": project,
        "request": asked.to_data(),
        "add_nodes": list(add_nodes),
        "without": list(without),
        "all_nodes": all_nodes,
    }
    return _tell(connect().post("/fit", body), all_nodes=all_nodes, as_json=as_json)


def _tell(survey: dict[str, Any], *, all_nodes: bool, as_json: bool) -> int:
    if not as_json:
        return print_survey(survey, all_nodes=all_nodes)
    print(json.dumps(survey, indent=2))
    return 0 if survey["verdict"] == "now" else 1


def _load_inventory(paths: Sequence[Path]) -> Inventory:
    """What all files say together."""
    objects, violations = [], []
    for path in paths:
        try:
            objects += inventories.parse_objects(sys.stdin.buffer.read() if path == STDIN else path.read_bytes())
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            violations.append(
                Violation("", "file", f"cannot be read: {reason}", "give the name of one", location=str(path))
            )
        except Unreadable as error:
            violations.append(Violation("", "file", str(error), error.hint, location=str(path)))
    if violations:
        raise RequestRejected(violations)
    return inventories.read_inventory(objects, ", ".join(map(str, paths)))


def _know_gpus(ground: Ground, table: NodeTable) -> Ground:
    """Where no document says what a GPU is called, and the nodes have one kind of them, it is that."""
    cluster = ground.snapshot.cluster
    named = [name for name in table.capacity if name.endswith("/gpu")]
    if ground.library.of("Cluster") or len(named) != 1:
        return ground
    known = cluster.model_copy(update={"gpu_resource": named[0]})
    return replace(ground, snapshot=replace(ground.snapshot, cluster=known))


def _survey(asked: RunRequest, ground: Ground, supposed: WhatIfCluster, *, all_nodes: bool = False) -> FitReport:
    plan = plan_alone(asked, ground)
    return fit_report.build_report(plan, supposed, autoscaled=ground.snapshot.cluster.autoscaled, all_nodes=all_nodes)


def _describe_pending(inventory: Inventory, supposed: WhatIfCluster, cluster: Cluster, *, as_json: bool) -> int:
    told = asdict(WhatIfChanges.of(supposed))
    placed = [
        asdict(pod)
        for pod in pending_pods.schedule_all(inventory.waiting, supposed.table, autoscaled=cluster.autoscaled)
    ]
    if not as_json:
        return print_placed(told, placed)
    print(json.dumps({"supposed": told, "pods": placed}, indent=2))
    return 0 if all(pod["verdict"] == "now" for pod in placed) else 1


def _describe_offers(ground: Ground, supposed: WhatIfCluster, inventory: Inventory, *, as_json: bool) -> int:
    offers = list(_survey_offers(ground, supposed))
    if not offers:
        waiting = f"; or --pending, of which there are {len(inventory.waiting)}" if inventory.waiting else ""
        hint = f"say --gpu 1, a program, a YAML file with a request, or compute resources: --compute DIR{waiting}"
        raise Unreadable("nothing is asked for", hint)
    told = asdict(WhatIfChanges.of(supposed))
    if not as_json:
        return print_offers(told, offers)
    print(json.dumps({"supposed": told, "compute_resources": offers}, indent=2))
    return 0


def _survey_offers(ground: Ground, supposed: WhatIfCluster) -> Iterator[dict[str, Any]]:
    """What becomes of a run that asks for a compute resource and nothing else, for each that is offered."""
    for name, offer in sorted(ground.snapshot.compute_resources.items()):
        said = {"function": UNNAMED, "action": _choose_action(offer), "profile": name}
        yield {"name": name, **asdict(_survey(RunRequest.model_validate(said), ground, supposed))}


def _choose_action(offer: ComputeResource) -> str:
    """Something that a compute resource may be used for."""
    allowed = offer.workload_types
    return next(action for action, kind in WORKLOAD_TYPES.items() if allowed is None or kind in allowed)
