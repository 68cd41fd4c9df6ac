"""Allocates a user ID, cores, GPUs and a port to a run, prepares its folder and writes its specification."""

import base64
import contextlib
import json
import os
import site
import subprocess
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fairlead.adapters.local import machines
from fairlead.adapters.local.id_table import IdTable
from fairlead.adapters.local.machines import GPU, Machine
from fairlead.adapters.local.specs import (
    NONE,
    SHARED_MEMORY,
    SOCKET,
    TEMPORARY_FOLDERS,
    Mount,
    Spec,
    UserMapping,
    link_to_temporary,
)
from fairlead.errors import FairleadError, StartFailed, Unavailable
from fairlead.manifests.pods import COMMAND
from fairlead.model.names import BOOTSTRAP, HOME
from fairlead.model.quantities import NANOS, Quantity
from fairlead.model.runs import LaunchSpec

# Runs inherit only these variables from the server's environment: search paths, locale and certificates.
INHERITED_VARIABLES = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")

Json = dict[str, Any]

TRAVERSABLE, PRIVATE, SHARED = 0o711, 0o700, 0o2770
TEMPORARY = "temporary"  # the folder of the run's /tmp and /var/tmp
TEMPORARY_NAMES = {path: path[1:].replace("/", "-") for path in TEMPORARY_FOLDERS}
STICKY = 0o1700  # programs expect the sticky bit
USE_HOST = "set network to host"


@dataclass(frozen=True)
class Allocation:
    """The folders, user ID, cores, GPUs and port of a run. `uid` is None unless the server runs as root.

    `gids` contains the group ID on the host for each group ID inside the run.
    """

    folder: Path
    volumes: Path
    uid: int | None
    cpus: tuple[int, ...]
    devices: tuple[str, ...]
    port: int | None = None
    gids: Mapping[int, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Runtime:
    """The Python interpreter for runs, the paths it needs, and the environment that runs inherit from."""

    python: Path
    paths: tuple[str, ...]
    environment: Mapping[str, str]
    readable: tuple[str, ...] = ()  # other paths that runs may read

    def has(self, module: str) -> bool:
        """Whether a package is installed."""
        return any(os.path.isdir(os.path.join(folder, module)) for folder in self.paths)


def find_runtime(python: Path, environment: Mapping[str, str], readable: Sequence[Path] = ()) -> Runtime:
    """Inspect a Python interpreter. Raises `FairleadError` if it cannot be run."""
    program = "import sys, json; print(json.dumps([sys.prefix, sys.base_prefix, *sys.path]))"
    try:
        completed = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=True, timeout=60)
        paths = json.loads(completed.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise FairleadError(f"cannot run Python at {python}: {error}", "set python to another interpreter") from error
    return Runtime(
        Path(os.path.abspath(python)),  # not resolved: the symbolic link in a virtual environment selects its packages
        tuple(sorted({os.path.realpath(path) for path in paths if path and os.path.exists(path)})),
        environment,
        tuple(os.path.realpath(path) for path in readable),
    )


def build_spec(launch: LaunchSpec, allocation: Allocation, machine: Machine, runtime: Runtime) -> Spec:
    """Build the specification of a run. Raises `StartFailed` if this machine can never start the run."""
    job = launch.manifests[0]
    pod = job["spec"]["template"]["spec"]
    container = pod["containers"][0]
    isolated, folder = machine.isolation_error is None, allocation.folder
    limits = container.get("resources", {}).get("limits", {})
    argv = [*container.get("command", ()), *container.get("args", ())]
    own_path = any(env["name"] == "PATH" for env in container.get("env", ()))
    if argv[:1] == [COMMAND[0]] and not own_path:  # if the run sets PATH, it selects its own Python
        argv[0] = str(runtime.python)
        _require_jupyterlab(launch, runtime)
    deadline = job["spec"]["template"]["spec"].get("activeDeadlineSeconds")
    return Spec(
        run_id=launch.execution_id,
        project_id=launch.project_id,
        name=launch.name,
        boot_id=machine.boot_id,
        command=[_resolve_code_path(_unescape(argument), folder, isolated) for argument in argv],
        env=_environment(container, allocation, runtime, isolated=isolated)
        | _listen_environment(launch, allocation, isolated=isolated),
        secret_envs=[env["name"] for env in container.get("env", ()) if "valueFrom" in env],
        cwd=HOME if isolated else str(folder / "home"),
        home=str(folder / "home"),
        identity=_identity(pod["securityContext"], allocation),
        isolated=isolated,
        network=_network(launch, allocation, machine),
        mounts=list(_mounts(launch, pod, allocation, machine)),
        revealed=[*runtime.paths, *runtime.readable, *_find_dns_configuration()],
        hidden=_hidden_folders(allocation, runtime),
        memory=_round_up(limits.get("memory")),
        disk=_round_up(limits.get("ephemeral-storage")),
        disk_folders=[str(folder / "home"), str(folder / TEMPORARY)],
        cpu=None if "cpu" not in limits else -(-Quantity.parse(limits["cpu"]).nanos // (NANOS // 1000)),
        max_processes=machine.max_processes,
        cgroup=machine.cgroups.folders_of(folder, limits_cpu="cpu" in limits),
        cpus=list(allocation.cpus),
        devices=list(allocation.devices),
        deadline=deadline,
        serves=is_served(launch),
        port=allocation.port,
        nvml=_find_nvml() if allocation.devices else None,
        amounts=dict(launch.demand.pod_request.amounts),
    )


def write_code(launch: LaunchSpec, folder: Path) -> None:
    """Write the function's code and the bootstrap to a folder: the contents of the ConfigMap, and the archive."""
    # Set modes explicitly, because the run may have a different user and the server a strict umask.
    folder.mkdir(mode=0o755, exist_ok=True)
    folder.chmod(0o755)
    config_map = next((item for item in launch.manifests if item["kind"] == "ConfigMap"), None)
    files = {name: text.encode() for name, text in (config_map or {}).get("data", {}).items()}
    files |= {name: base64.b64decode(data) for name, data in (config_map or {}).get("binaryData", {}).items()}
    if launch.code:
        files["code.tar.gz"] = launch.code
    for name, content in files.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o644)


def is_served(launch: LaunchSpec) -> bool:
    """Whether the run serves requests until it is stopped."""
    return bool(launch.manifests[0]["kind"] == "Deployment")


def _environment(container: Json, allocation: Allocation, runtime: Runtime, *, isolated: bool) -> dict[str, str]:
    env = {name: runtime.environment[name] for name in INHERITED_VARIABLES if name in runtime.environment}
    env["PATH"] = f"{runtime.python.parent}{os.pathsep}{env.get('PATH', os.defpath)}"
    if allocation.uid is None and site.ENABLE_USER_SITE:
        env["PYTHONUSERBASE"] = site.getuserbase()  # a run has its own home, but imports the user's packages
    home = HOME if isolated else str(allocation.folder / "home")
    env |= {item["name"]: _unescape(item["value"]) for item in container.get("env", ()) if "value" in item}
    # HOME in the plan is the mount path of the home folder, which does not exist without isolation.
    env |= {"HOME": home if env.get("HOME") == HOME else env.get("HOME", home), "FAIRLEAD_HOME": home}
    env["FAIRLEAD_OUTPUT"] = f"{home}/output"
    # Deleted with the run, and counted as part of its disk usage.
    env.setdefault("TMPDIR", f"{home}/tmp" if isolated else str(link_to_temporary(allocation.folder)))
    # A run can use only the GPUs allocated to it. Device numbers follow NVML's order; CUDA sorts by speed by default.
    return env | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(allocation.devices)}


def _listen_environment(launch: LaunchSpec, allocation: Allocation, *, isolated: bool) -> dict[str, str]:
    """Return the variable with the port or the private socket on which a served run listens."""
    if not is_served(launch):
        return {}
    if allocation.port is not None:
        return {"PORT": str(allocation.port)}
    return {"FAIRLEAD_SOCKET": f"{HOME if isolated else allocation.folder / 'home'}/{SOCKET}"}


def _require_jupyterlab(launch: LaunchSpec, runtime: Runtime) -> None:
    call = launch.demand.call
    if call is not None and call.action == "workspace" and not call.command and not runtime.has("jupyterlab"):
        message = f"JupyterLab is not installed for {runtime.python}"
        raise StartFailed(message, "install it with pip install jupyterlab, or set the function's command")


def _identity(security: Json, allocation: Allocation) -> UserMapping:
    user, group, shared = security["runAsUser"], security["runAsGroup"], security["fsGroup"]
    more = [shared] if shared != group else []
    if allocation.uid is None:
        return UserMapping(user, group)  # only root can map more than one group, so fsGroup has no effect
    outer = [allocation.gids[gid] for gid in more]
    return UserMapping(user, group, [*more], allocation.uid, allocation.gids[group], outer)


def _network(launch: LaunchSpec, allocation: Allocation, machine: Machine) -> str:
    network = launch.demand.network
    if network == NONE and machine.isolation_error is not None:
        raise StartFailed(f"network none is not available on this machine ({machine.isolation_error})", USE_HOST)
    if network == NONE and allocation.port is not None:
        raise StartFailed("a command cannot be served without a network", f"serve a Python function, or {USE_HOST}")
    return network


def _hidden_folders(allocation: Allocation, runtime: Runtime) -> list[str]:
    """Return the folders that appear empty: the data folder, sockets of the machine, cgroups, and the home folder."""
    hidden = [str(allocation.folder.parent.parent.resolve()), "/run", "/sys/fs/cgroup"]
    home = os.path.realpath(runtime.environment.get("HOME", "/"))
    # If the server runs as root, a run has a different user, and file permissions protect the home folder.
    if allocation.uid is None and not any(Path(path).is_relative_to(home) for path in ("/usr", "/var", *hidden[1:])):
        hidden += [] if any(Path(home).is_relative_to(path) for path in runtime.paths) else [home]
    return hidden


def _find_dns_configuration() -> list[str]:
    """Return the folder with the DNS configuration if /etc has only a link to it."""
    folder = os.path.dirname(os.path.realpath("/etc/resolv.conf"))
    return [] if folder == "/etc" else [folder]


def _mounts(launch: LaunchSpec, pod: Json, allocation: Allocation, machine: Machine) -> list[Mount]:
    sources = {volume["name"]: volume for volume in pod.get("volumes", ())}
    mounts = []
    for mount in pod["containers"][0].get("volumeMounts", ()):
        # Without mounts, the home and the code are folders of the machine, and so is /dev/shm.
        optional = mount["name"] in ("fairlead-home", "fairlead-code", "fairlead-shm")
        if machine.isolation_error is not None and not optional:
            message = f"cannot mount {mount['mountPath']}: this machine does not support mounts for runs"
            raise StartFailed(
                f"{message} ({machine.isolation_error})", "run the server as root, or allow user namespaces"
            )
        if machine.isolation_error is None:
            mounts.append(_mount(launch, sources[mount["name"]], mount, allocation))
    if machine.isolation_error is not None:
        return []
    folders = [Mount(path, str(allocation.folder / TEMPORARY / name)) for path, name in TEMPORARY_NAMES.items()]
    targets = {mount.target for mount in mounts}
    return [*mounts, *(own for own in (*folders, Mount(SHARED_MEMORY)) if own.target not in targets)]


def _mount(launch: LaunchSpec, volume: Json, mount: Json, allocation: Allocation) -> Mount:
    target, read_only = os.path.normpath(mount["mountPath"]), bool(mount.get("readOnly"))
    if "emptyDir" in volume and volume["emptyDir"].get("medium") == "Memory":
        return Mount(target, read_only=read_only, size=_round_up(volume["emptyDir"].get("sizeLimit")))
    if "secret" in volume:
        return Mount(target, secrets={item["path"]: item["key"] for item in volume["secret"]["items"]})
    return Mount(target, str(_find_source(launch, volume, allocation)), mount.get("subPath", ""), read_only)


def _find_source(launch: LaunchSpec, volume: Json, allocation: Allocation) -> Path:
    """Return the folder of a volume. The run's own volumes are in its folder and are deleted with it."""
    name, claim = volume["name"], volume.get("persistentVolumeClaim", {}).get("claimName")
    if name == "fairlead-home":
        return allocation.folder / "home"
    if name == "fairlead-code":
        return allocation.folder / "code"
    if "configMap" in volume:
        message = f"config map {volume['configMap']['name']} not found: local execution does not support config maps"
        raise StartFailed(message, "use a secret, a shared volume or a Kubernetes cluster")
    if claim in launch.demand.volumes:
        if claim not in launch.volumes:
            raise StartFailed(f"volume {claim} not found", "create it with fairlead volumes create")
        return allocation.volumes / launch.volumes[claim].id
    return allocation.folder / "volumes" / str(name)


def _resolve_code_path(argument: str, folder: Path, isolated: bool) -> str:
    """Replace the code's mount path with its real path if the run cannot have mounts."""
    return argument if isolated else argument.replace(f"{BOOTSTRAP}/", f"{folder / 'code'}/")


def _find_nvml() -> str | None:
    module = find_spec("pynvml")
    return None if module is None or module.origin is None else str(Path(module.origin).parent)


def _unescape(text: str) -> str:
    """Undo the escaping that prevents Kubernetes from expanding $(NAME)."""
    return text.replace("$$", "$") if "$$" in text else text


def _round_up(amount: str | None) -> int | None:
    return None if amount is None else -(-Quantity.parse(amount).nanos // NANOS)


def allocate(
    launch: LaunchSpec,
    folder: Path,
    volumes: Path,
    machine: Machine,
    active: Collection[Spec],
    id_table: IdTable | None,
) -> Allocation:
    """Allocate free resources. A run with a CPU limit gets the least-used cores. Raises `Unavailable`.

    With a table of IDs, the run also gets a user ID of its own, and the group IDs of its project.
    """
    pod = launch.manifests[0]["spec"]["template"]["spec"]
    limit = pod["containers"][0].get("resources", {}).get("limits", {}).get("cpu")
    cores = len(machine.cpus) if limit is None else -(-Quantity.parse(limit).nanos // NANOS)
    used_cpus = [cpu for spec in active for cpu in spec.cpus]
    cpus = sorted(machine.cpus, key=used_cpus.count)[:cores] if cores < len(machine.cpus) else []
    used_gpus = {device for spec in active for device in spec.devices}
    free = [gpu.id for gpu in machine.gpus if gpu.id not in used_gpus]
    requested = launch.demand.pod_request.amounts.get(GPU, 0) // NANOS
    if requested > len(free):
        raise Unavailable(f"needs {requested} GPUs; {len(free)} of {len(machine.gpus)} free")
    devices = free[:requested]
    port, uid, gids = _find_port(launch, pod, active), None, dict[int, int]()
    if id_table is not None:
        groups = (pod["securityContext"]["runAsGroup"], pod["securityContext"]["fsGroup"])
        gids, uid = {gid: id_table.find_group(launch.project_id, gid) for gid in groups}, _find_user(folder, id_table)
    return Allocation(folder, volumes, uid, tuple(sorted(cpus)), tuple(devices), port, gids)


def _find_user(folder: Path, id_table: IdTable) -> int:
    """The user ID of a run: that of an earlier start, or a new one."""
    # After a crash of the server, a run is started again, although its supervisor may be about to execute it. Folders
    # that belong to another user would then be closed to the run.
    with contextlib.suppress(FileNotFoundError):
        if (uid := Spec.load(folder).identity.outer_uid) is not None:
            return uid
    return id_table.take_user()


def prepare_run(launch: LaunchSpec, allocation: Allocation, machine: Machine, runtime: Runtime) -> Spec:
    """Create a run's folder with its code, home, volumes and specification."""
    folder, group = allocation.folder, launch.manifests[0]["spec"]["template"]["spec"]["securityContext"]["fsGroup"]
    make_traversable(folder)
    spec = build_spec(launch, allocation, machine, runtime)
    write_code(launch, folder / "code")
    (folder / "root").mkdir(mode=0o755, exist_ok=True)
    gid = allocation.gids.get(group, -1)  # -1 leaves the group unchanged; only root can change it
    for path in (folder / "home", folder / "home" / "output", folder / "home" / "tmp"):
        _make_folder(path, allocation.uid, gid, PRIVATE)
    if not spec.isolated:
        _link_temporary(folder)
    make_traversable(folder / TEMPORARY)
    for name in TEMPORARY_NAMES.values():
        _make_folder(folder / TEMPORARY / name, allocation.uid, gid, STICKY)
    for source in (Path(mount.source) for mount in spec.mounts if mount.source is not None):
        if source.is_relative_to(folder / "volumes"):
            _make_folder(source, allocation.uid, gid, SHARED)
        elif source.is_relative_to(allocation.volumes):
            # A shared volume outlives the run, so it does not belong to the run's user.
            _make_folder(source, 0, gid, SHARED)
    spec.save(folder)
    return spec


def _link_temporary(folder: Path) -> None:
    link = link_to_temporary(folder)
    make_traversable(link.parent)
    with contextlib.suppress(FileExistsError):  # repeated after a crash
        link.symlink_to(Path("..", folder.parent.name, folder.name, "home", "tmp"))


def make_traversable(folder: Path) -> None:
    """Create a folder that other users can traverse but not list."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(TRAVERSABLE)


def _find_port(launch: LaunchSpec, pod: dict[str, Any], active: Collection[Spec]) -> int | None:
    """Return the port on which a command listens; None for runs without a port."""
    if not is_served(launch) or launch.demand.call is None or not launch.demand.call.command:
        return None
    requested = next((port["containerPort"] for port in pod["containers"][0].get("ports", ())), None)
    return machines.choose_port(launch, requested, active)


def _make_folder(folder: Path, uid: int | None, gid: int, mode: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if uid is not None and os.getuid() == 0:
        os.chown(folder, uid, gid)
    folder.chmod(mode)
