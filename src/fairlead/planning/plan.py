"""Planning: resolve a request, check it and render its manifests. Preview and submit call the same function."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from fairlead.manifests import demands, rendering
from fairlead.model.nodes import NodeTable
from fairlead.model.plans import Fit, Layer, Plan, PlanWarning, Setting, Source, SourcedValue, Violation
from fairlead.model.quantities import MILLICORE, NANOS, Quantity
from fairlead.model.requests import RunRequest
from fairlead.model.scopes import Cluster
from fairlead.planning import checks, plan_warnings, policy_rules
from fairlead.resolution import enforced
from fairlead.resolution.drafts import Snapshot, build_draft
from fairlead.resolution.layers import (
    AMOUNTS,
    LayerValues,
    SettingGroup,
    Settings,
    add_layer,
    layer_values,
    resolve,
    single_setting,
    value_of,
)
from fairlead.scheduling import evaluation

# The smallest step of a computed limit: a millicore, a byte.
STEPS: Mapping[str, int] = {"cpu": MILLICORE, "mem": NANOS, "disk": NANOS}
# 8888 is Jupyter's default port.
PORTS: Mapping[tuple[str, str], int] = {("python", "serve"): 8080, ("python", "workspace"): 8888}
PLATFORM = Source(Layer.PLATFORM)
NO_RUN = "0" * 32  # the run ID in plans that are not stored
USER = Source(Layer.USER)


def plan_run(
    request: RunRequest, snapshot: Snapshot, run_id: str, *, render: bool = True, nodes: NodeTable | None = None
) -> Plan:
    """Plan a run. A plan with violations has no manifests; without `nodes` its fit is unknown."""
    layers = _collect(request, snapshot)
    settings = resolve(layers)
    _redirect(settings, snapshot)
    # Added last, because any layer may choose the compute resource, and its values override all layers.
    if (named := snapshot.compute_resources.get(value_of(settings, "profile"))) is not None:
        add_layer(settings, snapshot.layer_of(Layer.COMPUTE_RESOURCE, named))
    # This comes before the checks, so that rules also apply to computed limits.
    _complete(settings, snapshot)
    plan_warnings.bound_growth(settings, snapshot)
    add_layer(settings, enforced.resolve_enforced(settings, request, snapshot, run_id))
    draft = build_draft(request, snapshot, run_id, settings)
    overridden = plan_warnings.warn_overridden(draft)
    # A user who overrides a template value does so on purpose; `strict` is about user values that other layers
    # override.
    strict = [warning for warning in overridden if request.strict and warning.source != USER]
    violations = (
        *_as_violations(strict),
        *checks.check_request(draft),
        # The layers are also passed, because `locked` is about which layer sets a value, not about the result.
        *policy_rules.check_policies(draft, layers),
    )
    manifests = () if violations or not render else rendering.render_manifests(draft)
    # Only the rendered object shows whether all settings together are too large.
    if manifests and (too_large := tuple(checks.check_size(manifests[0]))):
        violations, manifests = too_large, ()
    demand = demands.build_demand(draft) if manifests else None
    fit = Fit()
    never: tuple[Violation, ...] = ()
    if nodes is not None and demand is not None:
        fit = evaluation.evaluate(demand.pod_request, nodes, autoscaled=snapshot.cluster.autoscaled)
        if fit.verdict == evaluation.NEVER:
            never = tuple(evaluation.explain_never_fits(demand.pod_request, nodes))
    switch = snapshot.switches["never_fits"]
    if never and switch.value == "refuse":
        violations, manifests, never = tuple(replace(violation, source=switch.source) for violation in never), (), ()
    return Plan(
        settings=tuple(draft.settings.values()),
        warnings=(
            *(warning for warning in overridden if warning not in strict),
            *plan_warnings.warn(draft),
            *(PlanWarning(reason.path, reason.rule, reason.message, reason.hint) for reason in never),
        ),
        violations=tuple(sorted(violations, key=lambda violation: violation.path)),
        manifests=manifests,
        demand=demand,
        fit=fit,
    )


def _collect(request: RunRequest, snapshot: Snapshot) -> list[LayerValues]:
    """All layers up to the user's, in ascending precedence."""
    layers = [LayerValues(PLATFORM, tuple(_defaults(request, snapshot.cluster))), *snapshot.defaults]
    name = request.template or ""
    # A successor is already resolved here, because the template's values are one of the layers.
    if (template := snapshot.templates.get(snapshot.archived.get(("template", name)) or name)) is not None:
        layers.append(snapshot.layer_of(Layer.TEMPLATE, template))
    return [*layers, layer_values(USER, request, *_request_settings(request))]


def _request_settings(request: RunRequest) -> Iterator[SettingGroup]:
    """The settings of a request that are not requirements."""
    # Only values that the user wrote are included. Otherwise the explanation would attribute defaults to the request.
    if "action" in request.model_fields_set:
        yield single_setting(USER, "action", "", request.action)
    if "kind" in request.function.model_fields_set:
        yield single_setting(USER, "function", "kind", request.function.kind)
    if request.function.image is not None:
        yield single_setting(USER, "function", "image", request.function.image)
    if request.function.pull_policy is not None:
        yield single_setting(USER, "function", "pull_policy", request.function.pull_policy)
    for name in dict.fromkeys(request.function.pull_secrets):
        yield single_setting(USER, "function", f"pull_secrets.{name}", name)
    if request.function.port is not None and request.action != "job":
        yield single_setting(USER, "function", "port", request.function.port)
    if "replicas" in request.model_fields_set:
        yield single_setting(USER, "replicas", "", request.replicas)
    if request.deadline is not None:
        yield single_setting(USER, "deadline", "", request.deadline)
    if request.idle_timeout is not None:
        yield single_setting(USER, "idle_timeout", "", request.idle_timeout)
    if request.retries is not None:
        yield single_setting(USER, "retries", "", request.retries)
    if request.on_oom is not None:
        yield single_setting(USER, "on_oom", "grow", request.on_oom.grow)
        if request.on_oom.max is not None:
            yield single_setting(USER, "on_oom", "max", request.on_oom.max)
    if request.priority is not None:
        yield single_setting(USER, "priority", "", request.priority)


def _defaults(request: RunRequest, cluster: Cluster) -> Iterator[SettingGroup]:
    """Platform defaults for a request's function."""
    function = request.function
    if "action" not in request.model_fields_set:
        yield single_setting(PLATFORM, "action", "", request.action)
    if "kind" not in function.model_fields_set:
        yield single_setting(PLATFORM, "function", "kind", function.kind)
    yield single_setting(PLATFORM, "replicas", "", 1)
    if function.kind == "python" and cluster.executor != "local":
        yield single_setting(PLATFORM, "function", "image", cluster.python_image)
    # Local runs share the ports of one machine, so the executor picks a free port instead.
    if cluster.executor != "local" and (port := PORTS.get((function.kind, request.action))) is not None:
        yield single_setting(PLATFORM, "function", "port", port)


def _redirect(settings: Settings, snapshot: Snapshot) -> None:
    """Replace archived compute resources and templates with their successors."""
    for field in ("profile", "template") if snapshot.archived else ():
        named = settings.get(field, {}).get("", {}).get("")
        successor = snapshot.archived.get((field, named.value)) if named is not None else None
        if named is not None and successor is not None:
            overridden = (SourcedValue(named.value, named.source), *named.overridden)
            reason = f"{named.value} is archived and replaced by {successor}"
            settings[field][""] = {"": named._replace(value=successor, overridden=overridden, reason=reason)}


def _complete(settings: Settings, snapshot: Snapshot) -> None:
    """Derive missing requests and limits, and explain values whose meaning depends on the cluster."""
    resources = settings.get("resources", {})
    for name in AMOUNTS:
        if parts := resources.get(name):
            factor = snapshot.limit_factors.get(name)
            resources[name] = _complete_amount(name, parts["requests"], parts["limits"], factor)
    shared = resources.get("shm", {}).get("")
    if shared is not None and shared.value is True:
        limited = "mem" in resources and isinstance(resources["mem"]["limits"].value, Quantity)
        reason = f"limited by {'the memory limit' if limited else 'the memory of the node'}"
        resources["shm"] = {"": shared._replace(reason=reason)}
    kind = resources.get("gpu", {}).get("type")
    if kind is not None and kind.value is not None:
        products = snapshot.cluster.gpu_types.get(kind.value, (kind.value,))
        reason = f"on nodes with {' or '.join(products)}"
        resources["gpu"] = {**resources["gpu"], "type": kind._replace(reason=reason)}


def _complete_amount(name: str, requests: Setting, limits: Setting, factor: SourcedValue | None) -> dict[str, Setting]:
    if requests.value is None and isinstance(limits.value, Quantity):
        # The API server would do the same, but then neither the plan nor the rule checks would include the value.
        requests = requests._replace(value=limits.value, reason="default request: equal to the limit")
    # A request of 0 reserves nothing, but must not limit the run to 0.
    if limits.value is None and requests.value is not None and requests.value.nanos and factor is not None:
        limit = requests.value.times(factor.value, step_nanos=STEPS[name])
        reason = f"default limit: {float(factor.value):g}x request"
        limits = limits._replace(value=limit, source=factor.source, reason=reason)
    return {"requests": requests, "limits": limits}


def _as_violations(warnings: Sequence[PlanWarning]) -> Iterator[Violation]:
    for warning in warnings:
        yield Violation(warning.path, "strict", warning.message, f"{warning.hint}, or remove strict", warning.source)
