"""Runs: previewed, submitted, listed, explained, stopped. Preview is submit without the write; nothing starts here."""

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from fairlead.core import explaining, lifecycle, quotas
from fairlead.core.actions import check_kept_code
from fairlead.core.planning import plan_run
from fairlead.errors import Conflict, NotFound, RequestRejected
from fairlead.model.nodes import Node
from fairlead.model.parsing import show
from fairlead.model.plans import Fit, Plan, Violation
from fairlead.model.queries import Condition, Page
from fairlead.model.records import JSON, AuditRecord, EventRecord, PlanRecord, RunRecord
from fairlead.model.requests import RunRequest
from fairlead.model.roles import Deed
from fairlead.model.states import FINAL, State
from fairlead.ports import Executors, Tell
from fairlead.services.calls import Call
from fairlead.services.codes import find_code
from fairlead.services.executions import find_run, known_nodes
from fairlead.services.listing import Listing, load_page
from fairlead.services.snapshots import Ground, Snapshots
from fairlead.services.units import Unit, Units

WAITING = "waits for its turn"
TOKEN = re.compile(r"([0-9a-f]{32})\.([0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True)
class Planned:
    """A plan, the ground that it was made on, and the token with which exactly this is submitted."""

    plan: Plan
    data: JSON
    ground: Ground
    run_id: str
    token: str | None


class Runs:
    """The use cases of runs."""

    def __init__(
        self,
        units: Units,
        snapshots: Snapshots,
        executors: Executors,
        tell: Tell = lambda _run_id: None,
    ) -> None:
        self.units, self.snapshots, self.executors, self.tell = units, snapshots, executors, tell

    def preview(self, call: Call, scope: str, request: RunRequest) -> JSON:
        """What would run, with which values and why. Nothing is kept."""
        with self.units.reading(call) as unit:
            unit.require(Deed.SEE, scope, scope)
            planned = self._plan(unit, scope, request, unit.make_id())
            return {**planned.data, "token": planned.token}

    def submit(self, call: Call, scope: str, request: RunRequest) -> RunRecord:
        """Keep a queued run, or raise `RequestRejected`. Nothing starts here."""
        with self.units.recording(call) as unit:
            if (before := unit.recall(RunRecord)) is not None:
                return before
            unit.require(Deed.WORK, scope, scope)
            planned = self._plan_as_previewed(unit, scope, request)
            if planned.plan.violations:
                raise RequestRejected(planned.plan.violations)
            record = self._tell_wait(_record_of(unit, scope, request, planned), planned)
            unit.add(record, "run", record.id, scope)
            # Without its fit, which is of this moment, and of what this caller may see.
            plan = {**planned.data, "fit": explaining.fit_data(Fit())}
            unit.tx.add(PlanRecord(id=record.id, request=request.to_data(), plan=plan))
            _note(unit, record)
            unit.remember(record)
        self.tell(record.id)
        return record

    def page(self, call: Call, asked: Listing, scope: str | None = None) -> Page[RunRecord]:
        """The runs that the caller sees, the newest first."""
        with self.units.reading(call) as unit:
            within = unit.in_sight()
            if scope is not None:
                unit.require(Deed.SEE, scope, scope)
                within = [Condition("scope", "=", scope)]
            return load_page(unit.tx, RunRecord, asked, sort="-created_at", within=within)

    def get(self, call: Call, run_id: str) -> RunRecord:
        """One run."""
        with self.units.reading(call) as unit:
            return find_run(unit, run_id)

    def plan(self, call: Call, run_id: str) -> PlanRecord:
        """What was asked for in a run, and what was decided."""
        with self.units.reading(call) as unit:
            find_run(unit, run_id)
            kept = unit.tx.get(PlanRecord, id=run_id)
            if kept is None:
                raise NotFound(f"there is no run {show(run_id)}")
            return kept

    def stop(self, call: Call, run_id: str) -> RunRecord:
        """Say that a run is to end. One that has ended, or is about to, stays as it is."""
        with self.units.recording(call) as unit:
            record = find_run(unit, run_id, Deed.WORK)
            unit.check_revision(record)
            if not record.live or record.state == State.STOPPING:
                return record
            by = unit.principal.user
            decision = lifecycle.decide_stop(record, by)
            changed: JSON = {"state": str(decision.state), "reason": decision.reason, "message": decision.message}
            if decision.state in FINAL:
                changed |= {"live": False, "finished_at": unit.now}
            after = replace(record, **changed, stopped_by=by, **unit.next(record))
            unit.save(record, after, "run.stop", record.id, record.scope)
            _note(unit, after)
        self.tell(run_id)
        return after

    def delete(self, call: Call, run_id: str) -> None:
        """Forget a run that has ended."""
        with self.units.recording(call) as unit:
            record = find_run(unit, run_id, Deed.WORK)
            unit.check_revision(record)
            if record.live:
                raise Conflict(f"run {run_id} is {record.state}, and only what has ended is deleted", "stop it first")
            unit.remove(record, "run", record.id, record.scope)
        self.tell(run_id)

    def _plan(self, unit: Unit, scope: str, request: RunRequest, run_id: str) -> Planned:
        ground = self.snapshots.load(unit, scope, request)
        plan = plan_run(request, ground.snapshot, run_id, nodes=self._nodes_of(unit, ground))
        plan = replace(plan, violations=(*plan.violations, *_check_code(unit, scope, request, plan, ground)))
        data = explaining.to_data(plan)
        token = None if plan.violations else f"{run_id}.{_fingerprint(scope, request, data)}"
        return Planned(plan, data, ground, run_id, token)

    def _plan_as_previewed(self, unit: Unit, scope: str, request: RunRequest) -> Planned:
        """The plan of a request; with a token the very one that was previewed, or `Conflict`."""
        if request.plan_token is None:
            return self._plan(unit, scope, request, unit.make_id())
        match = TOKEN.fullmatch(request.plan_token)
        if match is None:
            violation = Violation(
                "plan_token", "plan_token", "is none that a preview gave out", "preview again and send its token"
            )
            raise RequestRejected([violation])
        token, request = request.plan_token, request.model_copy(update={"plan_token": None})
        planned = self._plan(unit, scope, request, match[1])
        if planned.token != token:
            message = "what would run now is not what was previewed: the request or what it rests on has changed"
            raise Conflict(message, "preview again, and submit with the new token")
        # In the audit: a run that was deleted since was submitted all the same.
        if unit.tx.find(AuditRecord, Condition("object_id", "=", match[1]), limit=1):
            raise Conflict("what was previewed is submitted already", f"see run {match[1]}, or preview again")
        return planned

    def _tell_wait(self, record: RunRecord, planned: Planned) -> RunRecord:
        """The run, with what it waits for where nobody executes the runs of its cluster."""
        cluster = planned.ground.snapshot.cluster
        if record.cluster is not None and (self.executors.find(cluster) is not None or not self.executors.all()):
            return record
        message = "its project is on no cluster"
        if record.cluster is not None:
            message = f"no server executes the runs of {record.cluster} yet"
            if cluster.executor == "kubernetes" and cluster.connection == "kubeconfig":
                message += f": `fairlead clusters connect {cluster.name}` tells this one how to reach it"
        return replace(record, reason="NoExecutor", message=message)

    def _nodes_of(self, unit: Unit, ground: Ground) -> Sequence[Node] | None:
        executor = self.executors.find(ground.snapshot.cluster)
        return None if executor is None else known_nodes(unit, executor)


def _record_of(unit: Unit, scope: str, request: RunRequest, planned: Planned) -> RunRecord:
    values = {setting.path: setting.value for setting in planned.plan.settings}
    profile, template = values.get("profile"), values.get("template")
    resource = planned.ground.records.get(("profile", profile)) if profile else None
    started_from = planned.ground.records.get(("template", template)) if template else None
    return RunRecord(
        **{**unit.stamps(), "id": planned.run_id},
        scope=scope,
        function=request.function.name,
        action=request.action,
        state=str(State.QUEUED),
        reason="Queued",
        message=WAITING,
        code=request.function.code,
        cluster=_cluster_of(unit, planned.ground),
        compute_resource=profile,
        compute_resource_id=None if resource is None else resource.id,
        compute_resource_revision=None if resource is None else resource.revision,
        template=template,
        template_id=None if started_from is None else started_from.id,
        uses=sorted(_uses_of(values)),
        **quotas.count(planned.plan.settings)._asdict(),
    )


def _cluster_of(unit: Unit, ground: Ground) -> str | None:
    """Whose executor executes the run: the cluster that it was planned for, where that is one."""
    scope = ground.snapshot.cluster.scope
    return scope if scope in unit.organisation.clusters else None


def _check_code(unit: Unit, scope: str, request: RunRequest, plan: Plan, ground: Ground) -> Iterator[Violation]:
    digest = request.function.code
    kept = None if digest is None else find_code(unit, scope, digest)
    if kept is not None:
        yield from check_kept_code(plan.manifests, ground.snapshot.cluster, kept.size)
    elif digest is not None:
        message, path = f"there is no code {digest} in {scope}", f"/projects/{scope.partition('/')[2]}/code/{digest}"
        hint = f"send it first: PUT it to {path}"
        yield Violation("function.code", "unknown_code", message, hint)


def _note(unit: Unit, run: RunRecord) -> None:
    """Keep in the run's history that it came to a state."""
    unit.tx.add(EventRecord.of(run, unit.make_id(), unit.now))


def _uses_of(values: dict[str, Any]) -> set[str]:
    """The project's volumes and secrets that a run is given."""
    named = ("secrets.", "function.pull_secrets.")
    used = {f"secret/{value}" for path, value in values.items() if path.startswith(named)}
    for path, value in values.items():
        section, _, part = path.partition(".")
        if section == "volumes" and part.endswith(".spec.claim_name"):
            used.add(f"volume/{value}")
        elif section == "volumes" and value == "secret" and part.endswith(".volume_type"):
            used.add(f"secret/{values[path.removesuffix('volume_type') + 'spec.name']}")
    return used


def _fingerprint(scope: str, request: RunRequest, plan: JSON) -> str:
    # Without its fit, which changes by the second.
    plan = {name: part for name, part in plan.items() if name != "fit"}
    return hashlib.sha256(msgspec.json.encode([scope, request.to_data(), plan])).hexdigest()
