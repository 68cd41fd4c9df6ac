"""Runs every resource request from DigitalHub's documentation, as written there, and checks the results.

Read it like a notebook: `FAIRLEAD_CAPACITY=cpu=16,mem=64Gi,disk=100Gi,gpu=1 python examples/seeds.py`. The capacity can
be more than this machine has, so that 32Gi and a GPU can be requested. Each run returns what it found in its
environment, which is compared with the request.
"""

import os
import sys
from collections.abc import Mapping
from typing import Any

import fairlead as fl
from fairlead.sdk.api_client import find_api_client

# Used only if this program starts the server.
os.environ.setdefault("FAIRLEAD_CAPACITY", "cpu=16,mem=64Gi,disk=100Gi,gpu=1")

project = fl.project("seeds")
submitted: list[tuple[fl.Run, dict[str, Any]]] = []


@project.function
def func(input1: object = None) -> dict[str, Any]:
    """Return the arguments, volumes, environment and IDs of this run."""
    volumes = {}
    for path in ("/app/files", "/data", "/local-data"):
        if os.path.ismount(path):
            with open(f"{path}/written", "w+") as file:
                file.write("here I can write")
                file.seek(0)
                volumes[path] = {"read": file.read(), "gid": os.stat(path).st_gid}
    with open("/proc/self/setgroups") as file:
        can_set_groups = file.read().strip() == "allow"  # only a server that runs as root can add groups to a run
    return {
        "args": sys.argv[1:],
        "input1": input1,
        "volumes": volumes,
        "envs": dict(os.environ),
        "gpus": os.environ["CUDA_VISIBLE_DEVICES"].split(",") if os.environ["CUDA_VISIBLE_DEVICES"] else [],
        "uid": os.getuid(),
        "gid": os.getgid(),
        "groups": sorted(os.getgroups()) if can_set_groups else None,
    }


def expect(run: fl.Run, **expected: Any) -> None:
    """Record what a run is expected to return."""
    submitted.append((run, expected))


def settings_of(run: fl.Run) -> dict[str, Any]:
    """Return the resolved settings of a run by path."""
    plan = find_api_client().get(f"/runs/{run.id}/explain")
    return {setting["path"]: setting["value"] for setting in plan["settings"]}


# %% An administrator defines the profile.
client = find_api_client()
if "1xa100" not in [compute_resource["name"] for compute_resource in client.list("/compute-resources")]:
    resources = {"cpu": 8, "mem": {"requests": "32Gi", "limits": "48Gi"}, "gpu": 1}
    client.post("/compute-resources", {"name": "1xa100", "requirements": {"resources": resources}})

# %% "To configure resources from a Jupyter workspace using the SDK, you can use a run definition like the following"
run = func.run(
    action="job",
    fs_group="8877",
    args=["/shared/launch.sh", "bosco", "trentino"],
    resources={"mem": "32Gi", "cpu": "6"},
    volumes=[
        {
            "volume_type": "persistent_volume_claim",
            "name": "volume-deforestation",
            "mount_path": "/app/files",
            "spec": {"size": "350Gi"},
        }
    ],
)
expect(
    run,
    args=["/shared/launch.sh", "bosco", "trentino"],
    volume="/app/files",
    group=8877,
    settings={"resources.mem.requests": "32Gi", "resources.cpu.requests": "6"},
)

# %% "To specify a profile from a Jupyter workspace using the SDK, you can define the run as follows"
value = {"epochs": 3}
train_run = func.run(
    action="job",
    inputs={"input1": value},
    profile="1xa100",  # selected hardware profile
    resources={"mem": "6Gi"},
    volumes=[
        {
            "volume_type": "persistent_volume_claim",
            "name": "train-volume",
            "mount_path": "/local-data",
            "spec": {"size": "10Gi"},
        }
    ],
)
# "The requirements defined in the template have priority over those defined by the user and are not overwritten."
expect(train_run, input1=value, volume="/local-data", gpus=1, settings={"resources.mem.requests": "32Gi"})
assert "overrides 6Gi (request)" in train_run.explain()

# %% "To configure a volume"
run = func.run(
    action="job",
    volumes=[
        {
            "volume_type": "persistent_volume_claim",
            "name": "my-pvc",
            "mount_path": "/data",
            "spec": {"size": "10Gi"},
        }
    ],
)
expect(run, volume="/data")

# %% "To configure CPU resources", "RAM memory resources", "GPU resources", "disk resources"
run = func.run(action="job", resources={"cpu": "10"})
expect(run, settings={"resources.cpu.requests": "10"})

run = func.run(action="job", resources={"mem": "32Gi"})
expect(run, settings={"resources.mem.requests": "32Gi"})

run = func.run(action="job", resources={"gpu": "1"})
expect(run, gpus=1, settings={"resources.gpu.devices": 1})

run = func.run(action="job", resources={"disk": "10Gi"})
expect(run, gpus=0, settings={"resources.disk.requests": "10Gi"})

# %% "To configure secrets". "Secrets must be stored via the platform"
project.set_secret("CDSETOOL_ESA_USER", "copernicus")
project.set_secret("CDSETOOL_ESA_PASSWORD", "sentinel-2")
run = func.run(action="job", secrets=["CDSETOOL_ESA_USER", "CDSETOOL_ESA_PASSWORD"])
expect(run, envs={"CDSETOOL_ESA_USER": "copernicus", "CDSETOOL_ESA_PASSWORD": "sentinel-2"})

# %% "To configure environment variables"
run = func.run(
    action="job",
    envs=[
        {"name": "HF_HOME", "value": "/local-data/huggingface"},
        {"name": "TRANSFORMERS_CACHE", "value": "/local-data/huggingface"},
    ],
)
expect(run, envs={"HF_HOME": "/local-data/huggingface", "TRANSFORMERS_CACHE": "/local-data/huggingface"})

# %% "To configure fs_group", "run_as_user", "run_as_group"
run = func.run(action="job", fs_group="8877")
expect(run, group=8877)

run = func.run(action="job", run_as_user=1000)
expect(run, uid=1000)

run = func.run(action="job", run_as_group=1000)
expect(run, gid=1000)

# %% The YAML examples from the same documentation, in Python.
run = func.run(resources={"cpu": {"requests": 8}, "mem": {"requests": "32Gi"}, "gpu": {"limits": "1"}})
expect(run, gpus=1, settings={"resources.cpu.requests": "8", "resources.mem.requests": "32Gi"})

run = func.run(resources={"cpu": "8", "mem": "32Gi", "gpu": "1", "disk": "10Gi"})
expect(run, gpus=1, settings={"resources.cpu.requests": "8", "resources.disk.requests": "10Gi"})

run = func.run(resources={"cpu": {"requests": "10", "limits": "12"}})
expect(run, settings={"resources.cpu.requests": "10", "resources.cpu.limits": "12"})

run = func.run(resources={"mem": {"requests": "32Gi", "limits": "64Gi"}})
expect(run, settings={"resources.mem.requests": "32Gi", "resources.mem.limits": "64Gi"})

run = func.run(resources={"gpu": {"limits": "1"}})
expect(run, gpus=1)

project.set_secret("my-secret-key", "and its value")
run = func.run(secrets=["my-secret-key"])
expect(run, envs={"my-secret-key": "and its value"})

run = func.run(envs=[{"name": "ENV1", "value": "VALU123123"}, {"name": "ENV2", "value": "VALU123123"}])
expect(run, envs={"ENV1": "VALU123123", "ENV2": "VALU123123"})

run = func.run(fs_group=1000, run_as_user=1000, run_as_group=1000)
expect(run, uid=1000, gid=1000)

run = func.run(run_as_user="4321", run_as_group="1234")
expect(run, uid=4321, gid=1234)

# %% Scheduling: node labels, tolerations and affinity "following Kubernetes specifications".
run = func.run(
    node_selector=[{"key": "kubernetes.io/os", "value": "linux"}],
    tolerations=[{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [
                    {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}
                ]
            }
        }
    },
)
expect(run, settings={"node_selector.kubernetes.io/os": "linux"})

# No node has such a label: the request is rejected immediately instead of waiting forever.
try:
    func.run(node_selector=[{"key": "selectorKey", "value": "selectValue"}])
    missing: list[str] = []
except fl.RequestRejected as rejected:
    missing = [violation.path for violation in rejected.violations]
assert missing == ["node_selector.selectorKey"], missing


# %% Every run completes and finds what it requested.
def check(run: fl.Run, expected: Mapping[str, Any]) -> None:
    """Compare what a run found with what it requested."""
    found = run.wait(60, progress=False).result
    for name in ("args", "input1", "uid", "gid"):
        assert name not in expected or found[name] == expected[name], (name, found[name], expected[name])
    if "volume" in expected:
        assert found["volumes"][expected["volume"]]["read"] == "here I can write", found["volumes"]
    if "group" in expected and found["groups"] is not None:
        assert expected["group"] in found["groups"], found["groups"]
        assert all(volume["gid"] == expected["group"] for volume in found["volumes"].values()), found["volumes"]
    assert "gpus" not in expected or len(found["gpus"]) == expected["gpus"], found["gpus"]
    envs = expected.get("envs", {})
    assert envs == {name: found["envs"].get(name) for name in envs}
    settings, required = settings_of(run), expected.get("settings", {})
    assert required == {name: settings.get(name) for name in required}, settings


for run, expected in submitted:
    check(run, expected)
    print(f"{run.id[-8:]}  {run.data['state']}  as requested: {', '.join(expected)}")
print(f"{len(submitted)} runs received what they requested")
