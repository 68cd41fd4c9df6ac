"""What a run needs, as typed values from its draft. The renderers write the same values into the manifests."""

from fairlead.manifests import pods
from fairlead.model import names
from fairlead.model.columns import MAX_INTEGER
from fairlead.model.nodes import Amounts, PodRequest
from fairlead.model.plans import Demand, RunResources
from fairlead.model.quantities import MILLICORE, NANOS, Quantity
from fairlead.resolution.drafts import Draft
from fairlead.resolution.layers import REQUIRED
from fairlead.scheduling.pod_requests import PODS, round_up, without_unlisted


def build_demand(draft: Draft) -> Demand:
    """The demand of a draft without violations."""
    is_kubernetes = draft.cluster.executor == "kubernetes"
    return Demand(
        pod_request=_build_pod_request(draft),
        resources=_count_resources(draft),
        # A project secret with this name must not replace the run token.
        secrets=tuple(name for name in draft.secrets if name != pods.RUN_TOKEN),
        # Other executors use no images.
        pull_secrets=tuple(draft.pull_secrets) if is_kubernetes else (),
        needs_token=draft.calls_back,
        call=draft.call if draft.function.kind == "python" else None,
        network=draft.values.get("network") or "host",
        deadline_seconds=None if (deadline := draft.values.get("deadline")) is None else float(deadline),
    )


def _build_pod_request(draft: Draft) -> PodRequest:
    """The same pod request as `read_pod_request` reads from the manifests."""
    gpu, affinity = pods.render_gpus(draft), draft.section("affinity")
    volumes = draft.volumes.values()
    return PodRequest(
        amounts=without_unlisted(_count_amounts(draft, gpu.resources), gpu.scheduler),
        node_selector=draft.section("node_selector"),
        node_terms=None if draft.required_nodes is None else tuple(draft.required_nodes),
        tolerations=tuple(map(dict, draft.section("tolerations").values())),
        namespace=names.namespace_of(draft.snapshot.project, draft.cluster.namespace),
        labels=draft.labels | gpu.labels,
        pod_affinity=tuple(affinity.get(f"podAffinity.{REQUIRED}", ())),
        pod_anti_affinity=tuple(affinity.get(f"podAntiAffinity.{REQUIRED}", ())),
        # Claims that the run creates do not exist before it starts, so a fit check would report them as missing.
        claims=tuple(parts["spec.claim_name"] for parts in volumes if parts["volume_type"] == "shared_volume"),
        gpu_share=gpu.share,
        count=draft.values["replicas"],
    )


def _count_amounts(draft: Draft, gpu_resources: Amounts) -> Amounts:
    amounts = {name: amount * NANOS for name, amount in gpu_resources.items()}
    for name, kubernetes_name in pods.RESOURCES.items():
        if isinstance(amount := draft.values.get(f"resources.{name}.requests"), Quantity):
            amounts[kubernetes_name] = amount.nanos
    for name, parts in draft.resources.items():
        if name.startswith("extended.") and parts[""].nanos:
            amounts[name.removeprefix("extended.")] = parts[""].nanos
    # The kubelet limits the number of pods, so the pod itself counts as a resource.
    return {**round_up(amounts), PODS: NANOS}


def _count_resources(draft: Draft) -> RunResources:
    count = draft.values["replicas"]
    cpu, memory, disk = (
        draft.values.get(f"resources.{name}.requests") or Quantity(0) for name in ("cpu", "mem", "disk")
    )
    # Limited to what a database column can store.
    return RunResources(
        gpus=draft.devices * count,
        cpu_millicores=min(cpu.times(count, step_nanos=MILLICORE).nanos // MILLICORE, MAX_INTEGER),
        mem_bytes=min(memory.times(count, step_nanos=NANOS).nanos // NANOS, MAX_INTEGER),
        disk_bytes=min(disk.times(count, step_nanos=NANOS).nanos // NANOS, MAX_INTEGER),
    )
