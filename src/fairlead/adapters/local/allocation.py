"""Allocates a user ID, cores, GPUs and a port to a run, and prepares its folder."""

import os
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from fairlead.adapters.local import pod_to_spec, tcp_ports
from fairlead.adapters.local.machines import GPU, Machine
from fairlead.adapters.local.pod_to_spec import Allocation, Runtime, map_gid
from fairlead.adapters.local.specs import Spec
from fairlead.errors import Unavailable
from fairlead.model.quantities import NANOS, Quantity
from fairlead.model.runs import LaunchSpec
from fairlead.scheduling.pod_requests import read_pod_request

FIRST_UID, UIDS = 1_000_000, 1_000_000  # above the IDs of ordinary users
TRAVERSABLE, PRIVATE, SHARED = 0o711, 0o700, 0o2770


def allocate(launch: LaunchSpec, folder: Path, volumes: Path, machine: Machine, active: Collection[Spec]) -> Allocation:
    """Allocate free resources. A run with a CPU limit gets the least-used cores. Raises `Unavailable`."""
    pod = launch.manifests[0]["spec"]["template"]["spec"]
    limit = pod["containers"][0].get("resources", {}).get("limits", {}).get("cpu")
    cores = len(machine.cpus) if limit is None else -(-Quantity.parse(limit).nanos // NANOS)
    used_cpus = [cpu for spec in active for cpu in spec.cpus]
    cpus = sorted(machine.cpus, key=used_cpus.count)[:cores] if cores < len(machine.cpus) else []
    used_gpus = {device for spec in active for device in spec.devices}
    free = [gpu.id for gpu in machine.gpus if gpu.id not in used_gpus]
    requested = read_pod_request(launch.manifests).amounts.get(GPU, 0) // NANOS
    if requested > len(free):
        raise Unavailable(f"needs {requested} GPUs; {len(free)} of {len(machine.gpus)} free")
    devices = free[:requested]
    uid = _choose_uid(launch.run_id, active) if os.getuid() == 0 else None
    return Allocation(folder, volumes, uid, tuple(sorted(cpus)), tuple(devices), _find_port(launch, pod, active))


def prepare_run(launch: LaunchSpec, allocation: Allocation, machine: Machine, runtime: Runtime) -> Spec:
    """Create a run's folder with its code, home, volumes and specification."""
    folder, group = allocation.folder, launch.manifests[0]["spec"]["template"]["spec"]["securityContext"]["fsGroup"]
    make_traversable(folder)
    spec = pod_to_spec.build_spec(launch, allocation, machine, runtime)
    pod_to_spec.write_code(launch, folder / "code")
    (folder / "root").mkdir(mode=0o755, exist_ok=True)
    gid = map_gid(launch.project, group)
    for path in (folder / "home", folder / "home" / "output", folder / "home" / "tmp"):
        _make_folder(path, allocation.uid, gid, PRIVATE)
    for source in (Path(mount.source) for mount in spec.mounts if mount.source is not None):
        if source.is_relative_to(folder / "volumes"):
            _make_folder(source, allocation.uid, gid, SHARED)
        elif source.is_relative_to(allocation.volumes):
            # A shared volume outlives the run, and another run may later get the same user ID.
            _make_folder(source, 0, gid, SHARED)
    spec.save(folder)
    return spec


def make_traversable(folder: Path) -> None:
    """Create a folder that other users can traverse but not list."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(TRAVERSABLE)


def _find_port(launch: LaunchSpec, pod: dict[str, Any], active: Collection[Spec]) -> int | None:
    """Return the port on which a command listens; None for runs without a port."""
    if not pod_to_spec.is_served(launch) or not pod_to_spec.read_call(launch)["command"]:
        return None
    requested = next((port["containerPort"] for port in pod["containers"][0].get("ports", ())), None)
    return tcp_ports.choose_port(launch, requested, active)


def _choose_uid(run_id: str, active: Collection[Spec]) -> int:
    """Choose a free user ID from a large range, so that a run rarely gets an earlier run's ID and leftover files."""
    used = {spec.identity.outer_uid for spec in active}
    first = zlib.crc32(run_id.encode()) % UIDS
    return next(uid for n in range(UIDS) if (uid := FIRST_UID + (first + n) % UIDS) not in used)


def _make_folder(folder: Path, uid: int | None, gid: int, mode: int) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if uid is not None and os.getuid() == 0:
        os.chown(folder, uid, gid)
    folder.chmod(mode)
