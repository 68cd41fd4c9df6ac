"""What a run is given of this machine before it starts: folders, a user id of its own, cores and GPUs."""

import os
import zlib
from collections.abc import Collection
from pathlib import Path
from typing import Any

from fairlead.adapters.local import pod_to_spec, tcp_ports
from fairlead.adapters.local.machines import GPU, Machine
from fairlead.adapters.local.pod_to_spec import Allocation, Runtime, map_gid
from fairlead.adapters.local.specs import Spec
from fairlead.core.fitting.pod_requests import read_pod_request
from fairlead.errors import Unavailable
from fairlead.model.observations import LaunchSpec
from fairlead.model.quantities import NANOS, Quantity

FIRST_UID, UIDS = 1_000_000, 1_000_000
PASSABLE, OWN, SHARED = 0o711, 0o700, 0o2770


def allocate(work: LaunchSpec, folder: Path, volumes: Path, machine: Machine, live: Collection[Spec]) -> Allocation:
    """Cores, GPUs and a port that are free, and an id that nobody has. Who asks for few cores gets the idle ones."""
    pod = work.manifests[0]["spec"]["template"]["spec"]
    limit = pod["containers"][0].get("resources", {}).get("limits", {}).get("cpu")
    cores = len(machine.cpus) if limit is None else -(-Quantity.parse(limit).nanos // NANOS)
    taken = [cpu for spec in live for cpu in spec.cpus]
    cpus = sorted(machine.cpus, key=taken.count)[:cores] if cores < len(machine.cpus) else []
    held = {device for spec in live for device in spec.devices}
    free = [gpu.id for gpu in machine.gpus if gpu.id not in held]
    wanted = read_pod_request(work.manifests).amounts.get(GPU, 0) // NANOS
    if wanted > len(free):
        raise Unavailable(f"asks for {wanted} GPUs; {len(free)} of {len(machine.gpus)} are free")
    devices = free[:wanted]
    uid = _choose_uid(work.run_id, live) if os.getuid() == 0 else None
    return Allocation(folder, volumes, uid, tuple(sorted(cpus)), tuple(devices), _find_port(work, pod, live))


def prepare_run(work: LaunchSpec, place: Allocation, machine: Machine, runtime: Runtime) -> Spec:
    """Make the folder of a run, and everything that is put into it before it starts."""
    folder, group = place.folder, work.manifests[0]["spec"]["template"]["spec"]["securityContext"]["fsGroup"]
    make_traversable(folder)
    spec = pod_to_spec.build_spec(work, place, machine, runtime)
    pod_to_spec.write_code(work, folder / "code")
    (folder / "root").mkdir(mode=0o755, exist_ok=True)
    gid = map_gid(work.project, group)
    for made in (folder / "home", folder / "home" / "output", folder / "home" / "tmp"):
        _give(made, place.uid, gid, OWN)
    for source in (Path(mount.source) for mount in spec.mounts if mount.source is not None):
        if source.is_relative_to(folder / "volumes"):
            _give(source, place.uid, gid, SHARED)
        elif source.is_relative_to(place.volumes):
            _give(source, 0, gid, SHARED)
    spec.save(folder)
    return spec


def make_traversable(folder: Path) -> None:
    """Make a folder that others can pass through and not look into."""
    folder.mkdir(parents=True, exist_ok=True)
    folder.chmod(PASSABLE)


def _find_port(work: LaunchSpec, pod: dict[str, Any], live: Collection[Spec]) -> int | None:
    """Where a command is to listen; None for whatever does not, or listens on its socket."""
    if not pod_to_spec.serves(work) or not pod_to_spec.read_call(work)["command"]:
        return None
    said = next((port["containerPort"] for port in pod["containers"][0].get("ports", ())), None)
    return tcp_ports.choose_port(work, said, live)


def _choose_uid(run_id: str, live: Collection[Spec]) -> int:
    """A user id of the run's own; not one of a few that are used again and again, with what others left behind."""
    used = {spec.identity.outer_uid for spec in live}
    first = zlib.crc32(run_id.encode()) % UIDS
    return next(uid for n in range(UIDS) if (uid := FIRST_UID + (first + n) % UIDS) not in used)


def _give(folder: Path, uid: int | None, gid: int, mode: int) -> None:
    """Make a folder that belongs to a run, or to all of its project."""
    folder.mkdir(parents=True, exist_ok=True)
    if uid is not None and os.getuid() == 0:
        os.chown(folder, uid, gid)
    folder.chmod(mode)
