"""Strategies for requests, compute resources, templates, policies and clusters, with typical and unusual values."""

import copy
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from fairlead.model.requests import Function, RunRequest
from fairlead.model.resources import Gpu, Resources, Volume, VolumeSpec
from fairlead.resolution.drafts import Snapshot
from tests.making import (
    make_cluster,
    make_compute_resource,
    make_policy,
    make_snapshot,
    make_template,
)

Data = dict[str, Any]

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
FUNCTION_NAMES = ["train", "Train", "1.2_3+4", "a" * 128, "a-12345678"]
PROJECTS = ["forest", "Forest", "kube-system", "a.b", "0"]
VARIABLES = ["A", "HOME", "HF_TOKEN", "a.b-c", "_", "FAIRLEAD_RUN"]
ODD_TEXTS = ["", "v", "$(A) $$", "é\n\t", "x" * 300, "null"]
KEYS = ["zone", "example.com/pool", "nvidia.com/gpu.product", "a"]
LABELS = ["a", "b", "", "A.b_c-1"]
CLAIM_SIZES = ["1Gi", "10G", "1", "1.5Gi"]


def optional(**fields: SearchStrategy[Any]) -> SearchStrategy[Data]:
    """A mapping in which every field is optional."""
    return st.fixed_dictionaries({}, optional=fields)


def amounts(*texts: Any) -> SearchStrategy[Any]:
    """An amount in any form; the texts are sorted, so that a limit is never below a request."""
    one = st.sampled_from(texts)
    pairs = st.tuples(st.integers(0, len(texts) - 1), st.integers(0, len(texts) - 1)).map(sorted)
    both = pairs.map(lambda pair: {"requests": texts[pair[0]], "limits": texts[pair[1]]})
    limits = one.map(lambda text: {"limits": text})
    unlimited = one.map(lambda text: {"requests": text, "limits": "unlimited"})
    return one | both | limits | unlimited | st.just({"limits": "unlimited"}) | st.just({})


CPU = amounts("1m", 0.1, "500m", 1, "1.5", "2", 8, "1e3", "7E")
BYTES = amounts(1, "1000", "1Mi", "0.1Gi", "2G", "2Gi", "64Gi", "1Ti", "7Ei")
GPUS = st.one_of(
    st.integers(0, 16),
    st.sampled_from(["1", {"limits": "1"}, {"requests": 2, "limits": "2"}]),
    st.fixed_dictionaries({"devices": st.integers(1, 4)}, optional={"type": st.sampled_from(["A100", "H100"])}),
    st.sampled_from(
        [
            {"memory": "50%"},
            {"memory": "100%"},
            {"memory": {"limit": "100%"}},
            {"memory": "10GB", "type": "A100"},
            {"memory": {"request": "10GB", "limit": "20Gi"}},
            {"memory": {"request": "10%", "limit": "90%"}},
            {"memory": {"limit": "5GB"}},
            {"mig": "1g.5gb"},
            {"mig": "2g.10gb+me", "type": "H100"},
        ]
    ),
)
EXTENDED = st.dictionaries(
    st.sampled_from(["vendor.example/nic", "a.b/C_d", "nvidia.com/gpu"]),
    st.integers(0, 5),
    max_size=2,
)
RESOURCES = optional(
    cpu=CPU, mem=BYTES, disk=BYTES, gpu=GPUS, shm=st.booleans() | st.sampled_from(["1Gi", "64M"]), extended=EXTENDED
)

CONDITIONS = st.builds(
    lambda key, operator, values: {
        "key": key,
        "operator": operator,
        "values": {"Exists": [], "DoesNotExist": [], "Gt": ["5"], "Lt": ["7"]}.get(operator, values),
    },
    st.sampled_from(KEYS),
    st.sampled_from(["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]),
    st.lists(st.sampled_from(LABELS), min_size=1, max_size=2, unique=True),
)
NODE = {"key": "metadata.name", "operator": "In", "values": ["node-1.example"]}
TERMS = optional(matchExpressions=st.lists(CONDITIONS, max_size=2), matchFields=st.just([NODE]))
POD_TERMS = st.fixed_dictionaries(
    {"topologyKey": st.sampled_from(KEYS)},
    optional={
        "labelSelector": st.sampled_from([{}, {"matchLabels": {"a": "b"}}]),
        "namespaces": st.just(["other"]),
    },
)
PODS = optional(
    **{
        REQUIRED: st.lists(POD_TERMS, max_size=2),
        PREFERRED: st.lists(POD_TERMS.map(lambda term: {"weight": 7, "podAffinityTerm": term}), max_size=2),
    }
)
AFFINITY = optional(
    nodeAffinity=optional(
        **{
            REQUIRED: st.lists(TERMS, min_size=1, max_size=3).map(lambda terms: {"nodeSelectorTerms": terms}),
            PREFERRED: st.lists(TERMS.map(lambda term: {"weight": 5, "preference": term}), max_size=2),
        }
    ),
    podAffinity=PODS,
    podAntiAffinity=PODS,
)
TOLERATIONS = st.lists(
    st.sampled_from(
        [
            {"operator": "Exists"},
            {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "gpu", "value": "a100"},
            {"key": "gpu", "operator": "Equal", "value": "a100"},
            {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5},
        ]
    ),
    max_size=3,
)


def _volume(path: str, kind: str, size: str, spec: Data, flags: Data) -> Data:
    sized = {"size": size} if kind in ("persistent_volume_claim", "ephemeral") else {}
    return {"volume_type": kind, "mount_path": path, "spec": sized | spec, **flags}


SPECS: list[tuple[str, Data]] = [
    ("persistent_volume_claim", {}),
    ("persistent_volume_claim", {"storage_class": "fast"}),
    ("ephemeral", {"storage_class": "slow"}),
    ("empty_dir", {}),
    ("empty_dir", {"size": "1Gi", "medium": "Memory"}),
    ("secret", {"name": "HF_TOKEN"}),
    ("shared_volume", {"claim_name": "theirs"}),
    ("shared_volume", {}),
    ("config_map", {"name": "settings"}),
]
VOLUMES = st.dictionaries(
    st.sampled_from(["data", "out", "v" * 63]),
    st.builds(
        lambda path, kind, size, flags: _volume(path, kind[0], size, kind[1], flags),
        st.sampled_from(["/data", "/out/", "//x/./y", "/dev/shm", "/with space", "/fairlead/x"]),
        st.sampled_from(SPECS),
        st.sampled_from(CLAIM_SIZES),
        optional(read_only=st.booleans(), sub_path=st.sampled_from(["a/b", "c"])),
    ),
    max_size=2,
).filter(lambda volumes: len({volume["mount_path"] for volume in volumes.values()}) == len(volumes))

IDS = st.sampled_from([0, 1, 1000, "8877", 2**31 - 1])
REQUIREMENTS: dict[str, SearchStrategy[Any]] = {
    "resources": RESOURCES,
    "node_selector": st.dictionaries(st.sampled_from(KEYS), st.sampled_from(LABELS), max_size=2),
    "tolerations": TOLERATIONS,
    "affinity": AFFINITY,
    "volumes": VOLUMES,
    "secrets": st.lists(st.sampled_from(VARIABLES), max_size=3),
    "envs": st.dictionaries(st.sampled_from(VARIABLES), st.sampled_from(ODD_TEXTS), max_size=2),
    "fs_group": IDS,
    "run_as_user": IDS,
    "run_as_group": IDS,
    "runtime_class": st.sampled_from(["nvidia", "kata.v2"]),
    "priority_class": st.sampled_from(["low", "high"]),
}

PULL_SETTINGS = {
    "pull_policy": st.sampled_from(["Always", "IfNotPresent", "Never"]),
    "pull_secrets": st.lists(st.sampled_from(VARIABLES), max_size=2),
}
FUNCTIONS = st.one_of(
    st.sampled_from(FUNCTION_NAMES),
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(FUNCTION_NAMES),
            "kind": st.just("container"),
            "image": st.sampled_from(["python:3.12", "registry.example/a/b@sha256:12"]),
        },
        optional={
            "port": st.integers(1, 65535),
            "command": st.just("run 'it all'"),
            "args": st.just(["$(A)"]),
            **PULL_SETTINGS,
        },
    ),
    st.fixed_dictionaries(
        {"name": st.sampled_from(FUNCTION_NAMES), "handler": st.just("main"), "source": st.just("train.py")},
        optional=PULL_SETTINGS,
    ),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(["big", "small"])
REQUESTS = st.fixed_dictionaries(
    {"function": FUNCTIONS},
    optional={
        **REQUIREMENTS,
        "action": st.sampled_from(["job", "serve", "workspace"]),
        "profile": NAMES,
        "template": st.just("start"),
        "inputs": st.dictionaries(st.text(max_size=5), JSON, max_size=2),
        "args": st.lists(st.sampled_from(["--x", "$(A)", ""]), max_size=2),
        "replicas": st.sampled_from([1, 2, 10_000]),
        "deadline": st.sampled_from([60, "2h"]),
        "strict": st.booleans(),
    },
)

BOUNDS = {
    "resources.cpu": st.sampled_from(["1m", 1, "1.5", 8]),
    "resources.cpu.limits": st.sampled_from([1, 8, "1e3"]),
    "resources.mem": st.sampled_from(["1Mi", "2Gi", "1Ti"]),
    "resources.mem.limits": st.sampled_from(["2Gi", "64Gi"]),
    "resources.disk.limits": st.sampled_from(["2Gi", "64Gi"]),
    "resources.gpu": st.integers(0, 8),
    "resources.shm": st.sampled_from(["64M", "2Gi"]),
    "resources.extended.*": st.integers(0, 4),
    "resources.extended.vendor.example/nic": st.integers(0, 4),
    "volumes.*.spec.size": st.sampled_from(["1Gi", "10Gi"]),
    "run_as_user": st.sampled_from([1, 1000, 2000]),
    "replicas": st.sampled_from([1, 2, 100]),
}


@st.composite
def rules(draw: st.DrawFn) -> Data:
    """Policy rules: bounds, options, and flags."""
    drawn_rules: Data = {}
    for path in draw(st.lists(st.sampled_from([*BOUNDS]), max_size=4, unique=True)):
        drawn_rules[path] = {draw(st.sampled_from(["max", "max", "min"])): draw(BOUNDS[path])}
    extra: list[tuple[str, Data]] = [
        ("priority_class", {"options": ["low"]}),
        ("node_selector.zone", {"options": ["a", "b"]}),
        ("envs", {"locked": True}),
        ("secrets.HF_TOKEN", {"required": True}),
        ("resources.gpu.type", {"options": ["A100"]}),
    ]
    for path, rule in draw(st.lists(st.sampled_from(extra), max_size=1)):
        drawn_rules[path] = rule
    return drawn_rules


SWITCHES = optional(
    existing_volumes=st.sampled_from(["allow", "allow", "block"]),
    storage_classes=st.sampled_from([["fast"], ["fast", "slow"], []]),
    registries=st.sampled_from([["docker.io"], ["registry.example", "docker.io"]]),
    compute_resource=st.sampled_from(["required", "optional"]),
    allow_root=st.booleans(),
    gpu_memory_limits=st.booleans(),
)
FACTORS = optional(cpu=st.sampled_from([1, 1.1, 3]), mem=st.sampled_from([1, "1.1", 1000]), disk=st.just(2))
POLICIES = st.fixed_dictionaries(
    {},
    optional={
        "defaults": optional(**REQUIREMENTS, profile=NAMES),
        "limit_factor": FACTORS,
        "rules": rules(),
        "switches": SWITCHES,
        "quota": st.just({"gpu": 2, "cpu": 8, "mem": "8Gi", "runs": 5}),
        "queue": optional(max_waiting_runs=st.just(100), weight=st.sampled_from([0.5, 2])),
    },
)
CLUSTERS = st.fixed_dictionaries(
    {},
    optional={
        "gpu_sharing": st.sampled_from(["none", "kai", "hami"]),
        "gpu_resource": st.sampled_from(["nvidia.com/gpu", "amd.com/gpu"]),
        "gpu_types": st.just({"A100": ["A100-40GB", "A100-80GB"]}),
        "gpu_product_label": st.just("own.example/product"),
        "namespace": st.sampled_from(["ai-{project}", "{project}-runs", "k{project}", "x" * 30 + "{project}"]),
        "server_url": st.just("https://fairlead.example.org/at/"),
        "queueing": st.sampled_from(["none", "kueue", "kai"]),
        "kueue_queue": st.just("research"),
        "autoscaled": st.booleans(),
        "storage_classes": st.sampled_from([["fast"], ["fast", "slow"], []]),
        "runtime_classes": st.sampled_from([["nvidia"], ["nvidia", "kata.v2"]]),
    },
).filter(lambda cluster: (cluster.get("gpu_sharing"), cluster.get("queueing")) != ("hami", "kai"))


@st.composite
def snapshots(draw: st.DrawFn, policies: SearchStrategy[Data] = POLICIES) -> Snapshot:
    """A snapshot with two compute resources, a template, policies at three scopes, and a cluster."""
    scopes = ("platform", "department/vision", "project/forest")
    return make_snapshot(
        make_cluster(**draw(CLUSTERS)),
        *(make_policy(scope, **draw(policies)) for scope in scopes[: draw(st.integers(0, 3))]),
        *(make_compute_resource(name, **draw(optional(**REQUIREMENTS))) for name in ("big", "small")),
        make_template(**draw(optional(**REQUIREMENTS, profile=NAMES))),
        secrets=draw(st.none() | st.just([*VARIABLES])),
        volumes=draw(st.none() | st.just(["theirs"])),
        project=draw(st.sampled_from(PROJECTS)),
    )


# Values from JSON and YAML, and from Python code.
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.just(10**400),
    st.floats(),
    st.text(max_size=10),
    st.sampled_from(["1Gi", "50%", "unlimited", "a", "A", "..", "9" * 400 + ".5", "1e999999999", "\ud800", "a\0"]),
    st.dates(),
    st.binary(max_size=3),
)
FIELDS = st.sampled_from(
    [
        *RunRequest.model_fields,
        *Resources.model_fields,
        *Volume.model_fields,
        *VolumeSpec.model_fields,
        *Gpu.model_fields,
        *Function.model_fields,
        "requests",
        "limits",
        "key",
        "value",
        "resource_type",
        "nodeAffinity",
    ]
)
GARBAGE_KEYS = FIELDS | st.text(max_size=5) | st.integers() | st.none()
GARBAGE = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(GARBAGE_KEYS, inner, max_size=4),
    max_leaves=12,
)


@st.composite
def malformed_requests(draw: st.DrawFn) -> Any:
    """A valid request in which some parts, at any depth, are replaced by garbage."""
    request = copy.deepcopy(draw(REQUESTS))  # sampled objects must not be changed
    for _ in range(draw(st.integers(1, 3))):
        container: Any = request
        while True:
            keys = [*container] if isinstance(container, dict) else [*range(len(container))]
            key = draw(st.sampled_from(keys)) if keys else "a"
            if not keys or not isinstance(container[key], dict | list) or draw(st.booleans()):
                break
            container = container[key]
        if isinstance(container, dict) or keys:
            container[key] = draw(GARBAGE)
    return request
