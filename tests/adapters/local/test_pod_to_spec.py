"""Converting a pod into a supervisor spec."""

import base64
import os
import stat
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fairlead.adapters.local import allocation
from fairlead.adapters.local.allocation import Runtime, build_spec, find_runtime, write_code
from fairlead.adapters.local.specs import Mount, Spec, UserMapping
from fairlead.errors import FairleadError, StartFailed
from tests.adapters.local.making import make_allocation, make_launch_spec, make_machine
from tests.making import make_cluster
from tests.scheduling.nodes import make_amounts

FOLDER = Path("/srv/fairlead")
RUN_FOLDER = FOLDER / "runs" / "r1"
RUNTIME = Runtime(
    Path("/opt/py/bin/python3"), ("/opt/py",), {"HOME": "/home/ada", "PATH": "/usr/bin:/bin", "TZ": "UTC", "OTHER": "x"}
)


def make_spec(
    *, allocation: dict[str, Any] | None = None, machine: dict[str, Any] | None = None, **fields: Any
) -> Spec:
    """The spec of a run."""
    return build_spec(
        make_launch_spec(**fields),
        make_allocation(FOLDER, **(allocation or {})),
        make_machine(**(machine or {})),
        RUNTIME,
    )


def mounted(**volume: Any) -> Mount:
    """The mount of one volume."""
    shared = volume.pop("shared", {})
    spec = make_spec(volumes=[{"name": "data", "mount_path": "/data", **volume}], shared=shared)
    (match,) = [mount for mount in spec.mounts if mount.target == "/data"]
    return match


def test_command_comes_from_the_pod() -> None:
    spec = make_spec(function={"name": "train", "source": "train.py", "args": ["--lr", "0.1"]})
    assert spec.command == ["/opt/py/bin/python3", "-u", "/etc/fairlead/bootstrap.py", "--lr", "0.1"]
    assert (spec.run_id, spec.project_id, spec.name, spec.boot_id) == ("r1", "id-forest", "train-r1", "b1")
    assert (spec.cwd, spec.home, spec.isolated) == ("/fairlead", str(RUN_FOLDER / "home"), True)


def test_path_in_envs_selects_the_python() -> None:
    assert make_spec(envs={"PATH": "/mine/bin"}).command[0] == "python3"


@given(st.text(st.sampled_from("$(A) x"), max_size=12))
def test_args_and_envs_are_passed_unchanged(text: str) -> None:
    spec = make_spec(envs={"A": text}, args=[text or "x"])
    assert spec.env["A"] == text
    assert spec.command[-1] == (text or "x")


def test_only_location_variables_of_the_server_environment_are_inherited() -> None:
    env = make_spec().env
    assert env["PATH"] == "/opt/py/bin:/usr/bin:/bin"
    assert env["TZ"] == "UTC"
    assert "OTHER" not in env


def test_path_has_a_default() -> None:
    runtime = replace(RUNTIME, environment={})
    spec = build_spec(make_launch_spec(), make_allocation(FOLDER), make_machine(), runtime)
    assert spec.env["PATH"] == f"/opt/py/bin:{os.defpath}"


def test_requested_envs_override_the_server_environment() -> None:
    env = make_spec(envs={"PATH": "/mine", "TZ": "Europe/Rome"}).env
    assert (env["PATH"], env["TZ"]) == ("/mine", "Europe/Rome")


@pytest.mark.parametrize(
    ("machine", "home"),
    [({}, "/fairlead"), ({"isolation_error": "no namespaces"}, str(RUN_FOLDER / "home"))],
    ids=["own", "shared"],
)
def test_run_has_a_home_with_an_output_folder(machine: dict[str, Any], home: str) -> None:
    spec = make_spec(machine=machine)
    assert (spec.env["HOME"], spec.env["FAIRLEAD_HOME"], spec.cwd) == (home, home, home)
    assert spec.env["FAIRLEAD_OUTPUT"] == f"{home}/output"
    assert make_spec(machine=machine, envs={"HOME": "/elsewhere"}).env["HOME"] == "/elsewhere"


def test_run_id_and_project_are_in_the_environment() -> None:
    env = make_spec().env
    assert (env["FAIRLEAD_RUN"], env["FAIRLEAD_PROJECT"]) == ("r1", "forest")
    assert make_spec(envs={"FAIRLEAD_RUN": "other"}).env["FAIRLEAD_RUN"] == "r1"


@pytest.mark.parametrize(
    ("devices", "expected"), [((), ""), (("GPU-1",), "GPU-1"), (("GPU-1", "GPU-7"), "GPU-1,GPU-7")]
)
def test_only_assigned_gpus_are_visible(devices: tuple[str, ...], expected: str) -> None:
    spec = make_spec(allocation={"devices": devices}, envs={"CUDA_VISIBLE_DEVICES": "0,1,2"})
    assert spec.env["CUDA_VISIBLE_DEVICES"] == expected
    assert spec.devices == list(devices)


def test_spec_contains_names_but_not_values_of_secrets() -> None:
    spec = make_spec(secrets={"TOKEN": "hunter2"}, envs={"A": "1"})
    assert spec.secret_envs == ["TOKEN"]
    assert "TOKEN" not in spec.env
    assert "hunter2" not in repr(spec)
    assert "hunter2" not in repr(make_launch_spec(secrets={"TOKEN": "hunter2"}))


def test_limits_come_from_the_pod() -> None:
    resources = {"cpu": 1, "mem": {"requests": "1Gi", "limits": "2Gi"}, "disk": {"limits": "1.5Gi"}}
    spec = make_spec(resources=resources, deadline=90, allocation={"cpus": (1,)})
    assert (spec.memory, spec.disk, spec.deadline, spec.cpus) == (2 << 30, 3 << 29, 90, [1])
    assert spec.amounts == make_amounts(cpu=1, mem="1Gi", disk="1.5Gi", pods=1)
    unlimited = make_spec()
    assert (unlimited.memory, unlimited.disk, unlimited.deadline, unlimited.cpus) == (None, None, None, [])


def test_fractional_byte_limit_is_rounded_up() -> None:
    assert make_spec(resources={"mem": {"limits": "1.5"}}).memory == 2


def test_run_has_its_own_ids_if_the_server_is_root() -> None:
    spec = make_spec(run_as_user=5, run_as_group=6, fs_group=7, allocation={"gids": {6: 60, 7: 70}})
    assert spec.identity == UserMapping(5, 6, [7], 700_000, 60, [70])
    assert make_spec(fs_group=1000).identity.groups == []
    assert make_spec(allocation={"uid": None}).identity == UserMapping(1000, 1000)


SIZED = {"spec": {"size": "1Gi"}}


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        ({"volume_type": "persistent_volume_claim", **SIZED}, Mount("/data", f"{RUN_FOLDER}/volumes/data")),
        ({"volume_type": "ephemeral", **SIZED}, Mount("/data", f"{RUN_FOLDER}/volumes/data")),
        ({"volume_type": "empty_dir"}, Mount("/data", f"{RUN_FOLDER}/volumes/data")),
        ({"volume_type": "empty_dir", "spec": {"medium": "Memory"}}, Mount("/data")),
        ({"volume_type": "empty_dir", "spec": {"medium": "Memory", "size": "1Gi"}}, Mount("/data", size=1 << 30)),
        (
            {"volume_type": "shared_volume", "spec": {"claim_name": "sets"}, "shared": {"sets": "v7"}},
            Mount("/data", f"{FOLDER}/volumes/v7"),
        ),
        ({"volume_type": "secret", "spec": {"name": "TOKEN"}}, Mount("/data", secrets={"TOKEN": "TOKEN"})),
        (
            {"volume_type": "persistent_volume_claim", "sub_path": "a/b", "read_only": True, **SIZED},
            Mount("/data", f"{RUN_FOLDER}/volumes/data/a/b", read_only=True),
        ),
    ],
    ids=lambda value: value["volume_type"] if isinstance(value, dict) else "",
)
def test_each_volume_type_is_mounted(volume: dict[str, Any], expected: Mount) -> None:
    mount = mounted(**volume)
    assert (mount.target, mount.read_only, mount.size) == (expected.target, expected.read_only, expected.size)
    assert mount.secrets == expected.secrets
    if "sub_path" not in volume:
        assert mount.source == expected.source
    else:
        assert str(mount.source).startswith(f"{RUN_FOLDER}/volumes/data")


def test_home_code_and_shared_memory_are_mounted() -> None:
    spec = make_spec(resources={"mem": {"limits": "1Gi"}, "shm": True})
    mounts = {mount.target: mount for mount in spec.mounts}
    assert mounts["/fairlead"] == Mount("/fairlead", str(RUN_FOLDER / "home"))
    assert mounts["/etc/fairlead"] == Mount("/etc/fairlead", str(RUN_FOLDER / "code"), read_only=True)
    assert mounts["/dev/shm"] == Mount("/dev/shm", size=1 << 30)


def test_server_data_is_hidden_and_its_python_is_visible() -> None:
    spec = make_spec()
    assert spec.hidden == [str(FOLDER), "/run", "/sys/fs/cgroup"]
    assert "/opt/py" in spec.revealed


def test_home_of_the_server_user_is_hidden_if_runs_have_the_same_user() -> None:
    assert "/home/ada" in make_spec(allocation={"uid": None}).hidden
    assert "/home/ada" not in make_spec(allocation={"uid": 1_000_000}).hidden


def test_missing_volume_fails_the_start_with_a_hint() -> None:
    with pytest.raises(StartFailed, match="gone") as caught:
        mounted(volume_type="shared_volume", spec={"claim_name": "gone"})
    assert caught.value.hint


def test_config_map_fails_the_start_if_the_cluster_became_local_after_submission() -> None:
    volume = {"name": "data", "mount_path": "/data", "volume_type": "config_map", "spec": {"name": "settings"}}
    with pytest.raises(StartFailed, match="settings") as caught:
        make_spec(volumes=[volume], cluster=make_cluster())
    assert caught.value.hint


def test_code_is_run_in_place_without_isolation() -> None:
    spec = make_spec(machine={"isolation_error": "unshare: operation not permitted"})
    assert (spec.isolated, spec.mounts) == (False, [])
    assert spec.command[-1] == f"{RUN_FOLDER}/code/bootstrap.py"


def test_volume_fails_the_start_if_the_machine_no_longer_supports_mounts() -> None:
    volume = {"name": "data", "mount_path": "/data", "volume_type": "empty_dir", "spec": {}}
    with pytest.raises(StartFailed, match="unshare: operation not permitted") as caught:
        make_spec(machine={"isolation_error": "unshare: operation not permitted"}, volumes=[volume])
    assert "/data" in str(caught.value)


def test_shared_memory_is_the_machines_without_isolation() -> None:
    assert not make_spec(machine={"isolation_error": "no"}, resources={"shm": "1Gi"}).mounts


def test_code_is_written_for_the_bootstrap(tmp_path: Path) -> None:
    launch = make_launch_spec()
    for _ in range(2):  # repeated after a crash
        write_code(launch, tmp_path / "code")
    assert sorted(os.listdir(tmp_path / "code")) == ["bootstrap.py", "call.json", "code.tar.gz"]
    assert (tmp_path / "code" / "code.tar.gz").read_bytes() == launch.code
    for file in (tmp_path / "code").iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o644
    assert stat.S_IMODE((tmp_path / "code").stat().st_mode) == 0o755


def test_code_of_the_config_map_is_written(tmp_path: Path) -> None:
    code = {"kind": "ConfigMap", "data": {"a": "text"}, "binaryData": {"b": base64.b64encode(b"\xff").decode()}}
    launch = replace(make_launch_spec(), manifests=(*make_launch_spec().manifests[:1], code), code=b"")
    write_code(launch, tmp_path / "code")
    assert {file.name: file.read_bytes() for file in (tmp_path / "code").iterdir()} == {"a": b"text", "b": b"\xff"}


def test_interpreter_reports_the_paths_it_needs() -> None:
    runtime = find_runtime(Path(sys.executable), {"A": "1"})
    assert sys.prefix in runtime.paths
    assert runtime.environment == {"A": "1"}
    assert all(os.path.exists(path) for path in runtime.paths)


@pytest.mark.parametrize("python", ["/bin/false", "/bin/echo", "/nowhere/python", "/etc/passwd"])
def test_invalid_interpreter_is_rejected(python: str) -> None:
    with pytest.raises(FairleadError, match=python):
        find_runtime(Path(python), {})


def test_nvml_is_none_without_the_gpu_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(allocation, "find_spec", lambda _name: None)
    assert make_spec(allocation={"devices": ("GPU-1",)}).nvml is None


@pytest.mark.parametrize("action", ["serve", "workspace"])
def test_command_that_serves_gets_its_port_in_the_environment(action: str) -> None:
    function = {"name": "web", "command": ["serve"]}
    spec = make_spec(allocation={"port": 20_001}, action=action, function=function)
    assert (spec.serves, spec.port, spec.env["PORT"]) == (True, 20_001, "20001")
    assert "FAIRLEAD_SOCKET" not in spec.env


@pytest.mark.parametrize(
    ("machine", "home"),
    [({}, "/fairlead"), ({"isolation_error": "no namespaces"}, str(RUN_FOLDER / "home"))],
    ids=["own", "shared"],
)
def test_handler_that_serves_gets_its_socket_in_the_environment(machine: dict[str, Any], home: str) -> None:
    spec = make_spec(machine=machine, action="serve")
    assert (spec.serves, spec.port, spec.env["FAIRLEAD_SOCKET"]) == (True, None, f"{home}/serve.sock")
    assert "PORT" not in spec.env


def test_job_has_no_port_and_no_socket() -> None:
    spec = make_spec()
    assert (spec.serves, spec.port) == (False, None)
    assert not {"PORT", "FAIRLEAD_SOCKET"} & spec.env.keys()


def test_notebook_needs_jupyterlab_in_the_python_of_runs(tmp_path: Path) -> None:
    launch, allocation = make_launch_spec(action="workspace"), make_allocation(FOLDER)
    with pytest.raises(StartFailed, match="JupyterLab is not installed for /opt/py/bin/python3"):
        build_spec(launch, allocation, make_machine(), RUNTIME)
    (tmp_path / "jupyterlab").mkdir()
    with_jupyterlab = replace(RUNTIME, paths=("/opt/py", str(tmp_path)))
    assert build_spec(launch, allocation, make_machine(), with_jupyterlab).serves
    own_python = make_launch_spec(action="workspace", envs={"PATH": "/mine/bin"})  # the run's Python is unknown here
    assert build_spec(own_python, allocation, make_machine(), RUNTIME).serves
