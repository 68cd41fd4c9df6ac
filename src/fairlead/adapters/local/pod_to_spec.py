"""From the pod of a run to what its supervisor is told: the same plan that a cluster would execute."""

import base64
import json
import os
import site
import subprocess
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from fairlead.adapters.local.machines import Machine
from fairlead.adapters.local.specs import SOCKET, Mount, Spec, UserMapping
from fairlead.core.container_folders import BOOTSTRAP, HOME
from fairlead.core.fitting.pod_requests import read_pod_request
from fairlead.core.manifests.functions import COMMAND
from fairlead.errors import FairleadError, StartFailed
from fairlead.model.observations import LaunchSpec
from fairlead.model.quantities import NANOS, Quantity

# Of the server's environment a run sees these: they say where programs and libraries are, and how text is written.
PASSED_ON = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "SSL_CERT_FILE", "SSL_CERT_DIR")
FIRST_GID, PROJECTS, GIDS = 800_000, 20_000, 100_000

Json = dict[str, Any]


@dataclass(frozen=True)
class Allocation:
    """What a run is given of the machine: folders, a user id of its own where the server is root, cores, devices."""

    folder: Path
    volumes: Path
    uid: int | None
    cpus: tuple[int, ...]
    devices: tuple[str, ...]
    port: int | None = None


@dataclass(frozen=True)
class Runtime:
    """With what runs are executed: a Python, the folders that it needs, and the environment to take from."""

    python: Path
    needed: tuple[str, ...]
    environment: Mapping[str, str]

    def has(self, module: str) -> bool:
        """Whether a package is installed there."""
        return any(os.path.isdir(os.path.join(folder, module)) for folder in self.needed)


def find_runtime(python: Path, environment: Mapping[str, str]) -> Runtime:
    """Ask an interpreter what it needs. Raise `FairleadError` where it does not answer."""
    asking = "import sys, json; print(json.dumps([sys.prefix, sys.base_prefix, *sys.path]))"
    try:
        answer = subprocess.run([str(python), "-c", asking], capture_output=True, text=True, check=True, timeout=60)
        said = json.loads(answer.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        raise FairleadError(f"{python} is no Python that can be run: {error}", "set python to another one") from error
    return Runtime(
        Path(os.path.abspath(python)),
        tuple(sorted({part for part in said if part and os.path.exists(part)})),
        environment,
    )


def build_spec(work: LaunchSpec, place: Allocation, machine: Machine, runtime: Runtime) -> Spec:
    """The specification for the supervisor of a run. Raises `StartFailed` if this machine can never start the run."""
    job = work.manifests[0]
    pod = job["spec"]["template"]["spec"]
    container = pod["containers"][0]
    isolated, folder = machine.isolation_error is None, place.folder
    pod_request, limits = read_pod_request(work.manifests), container.get("resources", {}).get("limits", {})
    words = [*container.get("command", ()), *container.get("args", ())]
    own_path = any(env["name"] == "PATH" for env in container.get("env", ()))
    if words[:1] == [COMMAND[0]] and not own_path:  # who says where programs are says which Python it is
        words[0] = str(runtime.python)
        _need_notebook(work, runtime)
    deadline = job["spec"]["template"]["spec"].get("activeDeadlineSeconds")
    return Spec(
        run_id=work.run_id,
        project=work.project,
        name=work.name,
        boot_id=machine.boot_id,
        command=[_placed(_unescape(word), folder, isolated) for word in words],
        env=_environment(container, place, runtime, isolated=isolated) | _listen(work, place, isolated=isolated),
        secret_envs=[env["name"] for env in container.get("env", ()) if "valueFrom" in env],
        cwd=HOME if isolated else str(folder / "home"),
        home=str(folder / "home"),
        identity=_identity(pod["securityContext"], place.uid, work.project),
        isolated=isolated,
        mounts=list(_mounts(work, pod, place, machine)),
        revealed=list(runtime.needed),
        hidden=[str(folder.parent.parent.resolve())],
        memory=_whole(limits.get("memory")),
        disk=_whole(limits.get("ephemeral-storage")),
        cpus=list(place.cpus),
        devices=list(place.devices),
        deadline=deadline,
        serves=serves(work),
        port=place.port,
        nvml=_find_nvml() if place.devices else None,
        amounts=dict(pod_request.amounts),
    )


def write_code(work: LaunchSpec, folder: Path) -> None:
    """Put the function's code where the bootstrap finds it: as the ConfigMap says, with the archive that it names."""
    folder.mkdir(mode=0o755, exist_ok=True)
    folder.chmod(0o755)
    found = next((item for item in work.manifests if item["kind"] == "ConfigMap"), None)
    files = {name: text.encode() for name, text in (found or {}).get("data", {}).items()}
    files |= {name: base64.b64decode(data) for name, data in (found or {}).get("binaryData", {}).items()}
    if work.code:
        files["code.tar.gz"] = work.code
    for name, content in files.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o644)


def serves(work: LaunchSpec) -> bool:
    """Whether a run goes on until it is stopped."""
    return bool(work.manifests[0]["kind"] == "Deployment")


def read_call(work: LaunchSpec) -> Json:
    """What a run of a Python function executes."""
    program = next(item for item in work.manifests if item["kind"] == "ConfigMap")
    call: Json = json.loads(program["data"]["call.json"])
    return call


def map_gid(project: str, gid: int) -> int:
    """The group that a group of a project's runs is outside, the same for all of them."""
    # By its project first: who chooses a group freely must not come to one of another project.
    return FIRST_GID + zlib.crc32(project.encode()) % PROJECTS * GIDS + gid % GIDS


def _environment(container: Json, place: Allocation, runtime: Runtime, *, isolated: bool) -> dict[str, str]:
    env = {name: runtime.environment[name] for name in PASSED_ON if name in runtime.environment}
    env["PATH"] = f"{runtime.python.parent}{os.pathsep}{env.get('PATH', os.defpath)}"
    if place.uid is None and site.ENABLE_USER_SITE:
        env["PYTHONUSERBASE"] = site.getuserbase()  # the home of a run is another one
    home = HOME if isolated else str(place.folder / "home")
    env |= {item["name"]: _unescape(item["value"]) for item in container.get("env", ()) if "value" in item}
    env |= {"HOME": home if env.get("HOME") == HOME else env.get("HOME", home), "FAIRLEAD_HOME": home}
    env["FAIRLEAD_OUTPUT"] = f"{home}/output"
    env.setdefault("TMPDIR", f"{home}/tmp")  # which goes with the run, and counts as its disk
    # A run sees the GPUs that it asked for and no others.
    return env | {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(place.devices)}


def _listen(work: LaunchSpec, place: Allocation, *, isolated: bool) -> dict[str, str]:
    """The variables that say where a run is to listen: on a port, or on a socket that nobody else can get to."""
    if not serves(work):
        return {}
    if place.port is not None:
        return {"PORT": str(place.port)}
    return {"FAIRLEAD_SOCKET": f"{HOME if isolated else place.folder / 'home'}/{SOCKET}"}


def _need_notebook(work: LaunchSpec, runtime: Runtime) -> None:
    call = read_call(work)
    if call["action"] == "workspace" and not call["command"] and not runtime.has("jupyterlab"):
        message = f"JupyterLab is not installed for {runtime.python}"
        raise StartFailed(message, "install it there (pip install jupyterlab), or say the function's command")


def _identity(security: Json, uid: int | None, project: str) -> UserMapping:
    user, group, shared = security["runAsUser"], security["runAsGroup"], security["fsGroup"]
    more = [shared] if shared != group else []
    if uid is None:
        return UserMapping(user, group)
    outer = [map_gid(project, gid) for gid in more]
    return UserMapping(user, group, [*more], uid, map_gid(project, group), outer)


def _mounts(work: LaunchSpec, pod: Json, place: Allocation, machine: Machine) -> list[Mount]:
    sources = {volume["name"]: volume for volume in pod.get("volumes", ())}
    found = []
    for said in pod["containers"][0].get("volumeMounts", ()):
        own = said["name"] in ("fairlead-home", "fairlead-code")
        if machine.isolation_error is not None and not own:
            message = f"cannot mount {said['mountPath']}: this machine does not let a run have mounts of its own"
            raise StartFailed(
                f"{message} ({machine.isolation_error})", "run the server as root, or allow user namespaces"
            )
        if machine.isolation_error is None:
            found.append(_mount(work, sources[said["name"]], said, place))
    return found


def _mount(work: LaunchSpec, volume: Json, said: Json, place: Allocation) -> Mount:
    target, read_only = os.path.normpath(said["mountPath"]), bool(said.get("readOnly"))
    if "emptyDir" in volume and volume["emptyDir"].get("medium") == "Memory":
        return Mount(target, read_only=read_only, size=_whole(volume["emptyDir"].get("sizeLimit")))
    if "secret" in volume:
        return Mount(target, secrets={item["path"]: item["key"] for item in volume["secret"]["items"]})
    return Mount(target, str(_find_source(work, volume, place)), said.get("subPath", ""), read_only)


def _find_source(work: LaunchSpec, volume: Json, place: Allocation) -> Path:
    """The folder of a volume. Those of the run are below its own folder, and go with it."""
    name, claim = volume["name"], volume.get("persistentVolumeClaim", {}).get("claimName")
    if name == "fairlead-home":
        return place.folder / "home"
    if name == "fairlead-code":
        return place.folder / "code"
    if "configMap" in volume:
        message = f"there is no config map {volume['configMap']['name']}: this machine has none"
        raise StartFailed(message, "use a secret or a shared volume, or a Kubernetes cluster")
    made = {item["metadata"]["name"] for item in work.manifests if item["kind"] == "PersistentVolumeClaim"}
    if claim is not None and claim not in made:
        if claim not in work.volumes:
            raise StartFailed(f"there is no volume {claim}", "make it first: fairlead volumes create")
        return place.volumes / work.volumes[claim].id
    return place.folder / "volumes" / str(name)


def _placed(word: str, folder: Path, isolated: bool) -> str:
    """A word of the command, with the path that the code has where nothing can be mounted."""
    return word if isolated else word.replace(f"{BOOTSTRAP}/", f"{folder / 'code'}/")


def _find_nvml() -> str | None:
    found = find_spec("pynvml")
    return None if found is None or found.origin is None else str(Path(found.origin).parent)


def _unescape(text: str) -> str:
    """Undo what keeps Kubernetes from expanding $(NAME)."""
    return text.replace("$$", "$") if "$$" in text else text


def _whole(amount: str | None) -> int | None:
    return None if amount is None else -(-Quantity.parse(amount).nanos // NANOS)
