"""Properties of compute resource descriptions on random clusters."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fairlead.model.plans import Layer, Plan, Sentence
from fairlead.model.quantities import Quantity
from fairlead.model.scopes import Cluster
from fairlead.planning.linting import LintResult, lint_compute_resource, lint_template
from tests.making import make_cluster, make_compute_resource, make_policy
from tests.properties.strategies import CLUSTERS, POLICIES, REQUIREMENTS, optional, snapshots

slow = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much])

DESCRIBED_PREFIXES = ("resources.", "node_selector.", "tolerations.", "affinity.", "volumes.", "secrets.", "envs.")
DESCRIBED_FIELDS = ("fs_group", "run_as_user", "run_as_group", "runtime_class", "priority_class")
# Settings that mean nothing to the local executor are not described.
NOT_LOCAL = ("affinity.pod", "runtime_class", "priority_class")
FORBIDDEN_TEXTS = ("None", "null", "{", "}", "[", "Quantity", "Percent", "<", "  ", " ,", " .", "..")


@st.composite
def several_clusters(draw: st.DrawFn) -> list[Cluster]:
    """Up to three clusters, some of them local."""
    fields = draw(st.lists(CLUSTERS, max_size=3))
    return [
        make_cluster(name=f"c{number}", **draw(with_executor(cluster_fields)))
        for number, cluster_fields in enumerate(fields)
    ]


def with_executor(fields: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A cluster's fields for an executor; local clusters have no Kubernetes fields."""
    local_fields = {name: value for name, value in fields.items() if name not in Cluster.KUBERNETES_FIELDS}
    return st.sampled_from([fields, fields, {**local_fields, "executor": "local"}])


@st.composite
def lint_results(draw: st.DrawFn) -> LintResult:
    """The lint result for a compute resource or template on the given clusters."""
    if draw(st.booleans()):
        snapshot = draw(snapshots())
        return lint_template(snapshot.templates["start"], snapshot, draw(several_clusters()))
    resource = make_compute_resource(**draw(optional(**REQUIREMENTS)))
    policies = [make_policy(scope, **draw(POLICIES)) for scope in ("platform", "project/forest")]
    return lint_compute_resource(resource, policies[: draw(st.integers(0, 2))], draw(several_clusters()), strict=True)


def values(plan: Plan) -> dict[str, Any]:
    return {setting.path: setting.value for setting in plan.settings}


def sentences_of(result: LintResult, index: int) -> tuple[Sentence, ...]:
    """The sentences for a single cluster."""
    return LintResult(result.snapshot, result.layer, [result.plans[index]], result.strict).sentences


@slow
@given(lint_results())
def test_every_resolved_setting_is_described(result: LintResult) -> None:
    for index, (cluster, plans) in enumerate(result.plans):
        paths = {sentence.path for sentence in sentences_of(result, index)}
        local = cluster is not None and cluster.executor == "local"
        for setting in plans[0].settings:
            requested = setting.value is not None and setting.source.layer is not Layer.ENFORCED
            skipped = local and setting.path.startswith(NOT_LOCAL)
            if requested and not skipped and setting.path.startswith((*DESCRIBED_PREFIXES, *DESCRIBED_FIELDS)):
                assert any(_covers(path, setting.path) for path in paths), setting.path


def _covers(path: str, setting: str) -> bool:
    """Whether a sentence at a path describes a setting, its group or one of its parts."""
    return setting == path or setting.startswith(f"{path}.") or path.startswith(f"{setting.rpartition('.')[0]}.")


@slow
@given(lint_results())
def test_every_sentence_is_well_formed(result: LintResult) -> None:
    sentences = result.sentences
    assert len(sentences) == len(set(sentences))
    for sentence in sentences:
        assert sentence.kind in ("gets", "risk", "note")
        assert sentence.path
        assert not [part for part in FORBIDDEN_TEXTS if part in sentence.text], sentence.text
        assert sentence.text.endswith((".", ")"))
        assert sentence.text[0] in "/(" or sentence.text[0].isupper() or sentence.text[0].isdigit(), sentence.text
        assert sentence.text.isprintable()


@slow
@given(lint_results())
def test_memory_risks_match_request_and_limit(result: LintResult) -> None:
    for index, (_, plans) in enumerate(result.plans):
        settings_by_path = values(plans[0])
        risks = [
            item
            for item in sentences_of(result, index)
            if item.kind == "risk" and item.path.startswith("resources.mem")
        ]
        if "resources.mem.requests" not in settings_by_path:
            assert risks == []
            continue
        request, limit = settings_by_path["resources.mem.requests"], settings_by_path["resources.mem.limits"]
        bounded = isinstance(limit, Quantity)
        assert any("May be killed" in risk.text or "Among the first" in risk.text for risk in risks) == (
            not bounded or request is None or limit > request
        )
        assert any("(out of memory)" in risk.text for risk in risks) == bounded


@slow
@given(lint_results())
def test_gpus_are_described_only_for_clusters_that_provide_them(result: LintResult) -> None:
    for index, (_, plans) in enumerate(result.plans):
        devices = values(plans[0]).get("resources.gpu.devices")
        promised = any(
            item.kind == "gets" and item.path.startswith("resources.gpu") and "per pod" in item.text
            for item in sentences_of(result, index)
        )
        rejected = any(violation.rule == "gpu_sharing" for violation in plans[0].violations)
        local_slice = values(plans[0]).get("resources.gpu.mig") is not None and _is_local(result, index)
        assert promised == (bool(devices) and not rejected and not local_slice)


def _is_local(result: LintResult, index: int) -> bool:
    cluster = result.plans[index][0]
    return cluster is not None and cluster.executor == "local"
