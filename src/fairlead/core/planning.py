"""From a request to a plan: resolve, check, render. Preview and submit are this same function."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import TypeVar

from fairlead.core import checking, imposing, warning
from fairlead.core.drafts import Draft, Snapshot
from fairlead.core.manifests import rendering
from fairlead.core.policies import merging, rules
from fairlead.core.resolution import AMOUNTS, Resolution, Settings, Statement, Thing, resolve, state
from fairlead.model.compute_resources import ComputeResource, Named
from fairlead.model.parsing import nearest
from fairlead.model.plans import Layer, Plan, Setting, Source, Violation, Warning
from fairlead.model.policies import Policy
from fairlead.model.quantities import Quantity
from fairlead.model.requests import RunRequest
from fairlead.model.scopes import Cluster

# The smallest step of a computed limit: a millicore, a byte.
STEPS: Mapping[str, Fraction] = {"cpu": Fraction(1, 1000), "mem": Fraction(1), "disk": Fraction(1)}
PORTS: Mapping[tuple[str, str], int] = {("python", "serve"): 8080, ("python", "workspace"): 8888}
USER = Source(Layer.USER)

NamedT = TypeVar("NamedT", bound=Named)


def plan_run(request: RunRequest, snapshot: Snapshot, run_id: str, *, render: bool = True) -> Plan:
    """Decide everything about a run. With violations the plan has no manifests."""
    statements, compute_resource, unknown = _collect(request, snapshot)
    resolution = imposing.impose(_complete(resolve(statements), snapshot.policies), request, snapshot, run_id)
    switches = merging.merge_switches(snapshot.policies)
    draft = Draft(request, snapshot, resolution, switches, run_id, compute_resource)
    overridden = tuple(warning.warn_overridden(resolution))
    violations = (
        *unknown,
        *(_as_violations(overridden) if request.strict else ()),
        *checking.check(draft),
        *rules.check_rules(merging.merge_rules(snapshot.policies), resolution, statements),
    )
    return Plan(
        settings=tuple(sorted(resolution.flat(), key=lambda setting: setting.path)),
        warnings=(*(() if request.strict else overridden), *warning.warn(draft)),
        violations=violations,
        manifests=() if violations or not render else rendering.render_manifests(draft),
    )


def _collect(
    request: RunRequest, snapshot: Snapshot
) -> tuple[list[Statement], ComputeResource | None, list[Violation]]:
    """What each layer says, weakest first, the compute resource that is named, and names that nobody knows."""
    unknown: list[Violation] = []
    statements = [state(Source(Layer.PLATFORM), snapshot.platform, *_defaults(request, snapshot.cluster))]
    statements += [state(merging.source_of(policy), policy.defaults) for policy in snapshot.policies]
    profiles = [(merging.source_of(policy), policy.defaults.profile) for policy in snapshot.policies]
    profiles.insert(0, (Source(Layer.PLATFORM), snapshot.platform.profile))
    if request.template is not None:
        template = _look_up("template", request.template, snapshot.templates, USER, unknown)
        if template is not None:
            statements.append(state(_source_of(Layer.TEMPLATE, template), template.requirements))
            profiles.append((statements[-1].source, template.requirements.profile))
    statements.append(state(USER, request, *_asked(request)))
    profiles.append((USER, request.profile))
    resource = None
    source, profile = next(((who, name) for who, name in reversed(profiles) if name is not None), (USER, None))
    if profile is not None:
        resource = _look_up("profile", profile, snapshot.compute_resources, source, unknown)
    if resource is not None:
        statements.append(state(_source_of(Layer.COMPUTE_RESOURCE, resource), resource.requirements))
    return statements, resource, unknown


def _look_up(
    field: str, name: str, known: Mapping[str, NamedT], source: Source, unknown: list[Violation]
) -> NamedT | None:
    found = known.get(name)
    if found is None:
        kind = "compute resource" if field == "profile" else field
        hint = nearest(name, known, "choose one: {known}") if known else f"there is no {kind} here"
        unknown.append(Violation(field, f"unknown_{field}", f"there is no {kind} {name!r}", hint, source))
    return found


def _source_of(layer: Layer, named: Named) -> Source:
    return Source(layer, named.name, named.scope, named.revision)


def _asked(request: RunRequest) -> Iterator[Thing]:
    """What a request says beside its requirements."""
    yield Thing("action", "", {"": request.action})
    yield Thing("function", "kind", {"": request.function.kind})
    for part in ("image", "port"):
        if (value := getattr(request.function, part)) is not None:
            yield Thing("function", part, {"": value})
    if "replicas" in request.model_fields_set:
        yield Thing("replicas", "", {"": request.replicas})
    if request.deadline is not None:
        yield Thing("deadline", "", {"": request.deadline})


def _defaults(request: RunRequest, cluster: Cluster) -> Iterator[Thing]:
    """What holds of a function where its author says nothing."""
    function = request.function
    yield Thing("replicas", "", {"": 1})
    if function.kind == "python":
        yield Thing("function", "image", {"": cluster.python_image})
    if (port := PORTS.get((function.kind, request.action))) is not None:
        yield Thing("function", "port", {"": port})


def _complete(resolution: Resolution, policies: Sequence[Policy]) -> Resolution:
    """Requests that follow from limits, and limits that follow from requests."""
    things: Settings = dict(resolution.things)
    for name in AMOUNTS:
        if parts := things.get(("resources", name)):
            things["resources", name] = _complete_amount(name, parts["requests"], parts["limits"], policies)
    return Resolution(things)


def _complete_amount(name: str, requests: Setting, limits: Setting, policies: Sequence[Policy]) -> dict[str, Setting]:
    if requests.value is None and isinstance(limits.value, Quantity):
        requests = replace(requests, value=limits.value, why="no request is said, so it equals the limit")
    factor = merging.find_limit_factor(policies, name)
    if limits.value is None and requests.value is not None and requests.value.nanos and factor is not None:
        limit = requests.value.times(factor[0], step=STEPS[name])
        why = f"no limit is said, so it is {float(factor[0]):g} x the request"
        limits = replace(limits, value=limit, source=factor[1], why=why)
    return {"requests": requests, "limits": limits}


def _as_violations(warnings: Sequence[Warning]) -> Iterator[Violation]:
    for found in warnings:
        yield Violation(found.path, "strict", found.message, f"{found.hint}, or leave strict out", found.source)
