"""A pod's volumes and environment variables: folders on this machine, ConfigMaps and Secrets."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.clients import Object
from tests.cluster.kubelet.api import Api

TERMINATION_LOG = "/dev/termination-log"


class MissingObject(Exception):
    """An object that a pod refers to does not exist. Has the message that a kubelet would report."""


@dataclass(frozen=True)
class PathMapping:
    """Map a container's mount paths to folders on this machine. Other paths are unchanged."""

    folders: Mapping[str, Path]

    def translate(self, text: str) -> str:
        """Replace all mount paths in a text."""
        if not self.folders:
            return text
        paths = sorted(self.folders, key=len, reverse=True)
        pattern = r"(?<![\w./-])(" + "|".join(map(re.escape, paths)) + r")(?![\w.-])"
        return re.sub(pattern, lambda match: str(self.folders[match[1]]), text)


async def make_volumes(api: Api, pod: Object, folder: Path) -> dict[str, Path]:
    """Create and fill the folders of a pod's volumes. Raises MissingObject if a referenced object is missing."""
    folders = {}
    for volume in pod["spec"].get("volumes", ()):
        folders[volume["name"]] = await _make_volume(api, pod, volume, folder / volume["name"])
    return folders


def map_mounts(container: Object, volumes: Mapping[str, Path], termination: Path) -> PathMapping:
    """Map a container's mount paths to folders."""
    folders = {container.get("terminationMessagePath", TERMINATION_LOG): termination}
    for mount in container.get("volumeMounts", ()):
        path = volumes[mount["name"]] / mount.get("subPath", "")
        if not path.exists():
            path.mkdir(parents=True)
        folders[mount["mountPath"].rstrip("/")] = path
    return PathMapping(folders)


async def make_environment(api: Api, pod: Object, container: Object) -> dict[str, str]:
    """A container's environment. Raises MissingObject if a referenced object does not exist."""
    values: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        for kind, reference in (("configMap", "configMapRef"), ("secret", "secretRef")):
            if reference in source:
                contents = await _read(api, pod, kind, source[reference])
                values |= {source.get("prefix", "") + key: data.decode() for key, data in (contents or {}).items()}
    for variable in container.get("env", ()):
        value = await _value(api, pod, variable)
        if value is not None:
            values[variable["name"]] = expand(value, values)
    return values


def expand(text: str, values: Mapping[str, str]) -> str:
    """Replace every $(NAME) in a text. Unknown names stay unchanged, and $$ is a dollar sign."""
    pattern = r"\$\$|\$\(([\w.-]+)\)"
    return re.sub(pattern, lambda match: "$" if match[0] == "$$" else values.get(match[1], match[0]), text)


async def _make_volume(api: Api, pod: Object, volume: Object, folder: Path) -> Path:
    name, namespace = volume["name"], pod["metadata"]["namespace"]
    for kind, name_field in (("configMap", "name"), ("secret", "secretName")):
        if kind in volume:
            source = volume[kind]
            contents = await _read(api, pod, kind, {**source, "name": source[name_field]}, volume=name)
            _write(folder, contents or {}, source, f"{kind.lower()} {namespace}/{source[name_field]}", name)
            return folder
    if "hostPath" in volume:
        return Path(volume["hostPath"]["path"])
    if "persistentVolumeClaim" in volume or "ephemeral" in volume:
        claim = volume.get("persistentVolumeClaim", {}).get("claimName") or f"{pod['metadata']['name']}-{name}"
        claim_object = await api.find(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}")
        persistent_volume = claim_object and await api.find(
            f"/api/v1/persistentvolumes/{claim_object['spec'].get('volumeName')}"
        )
        if not persistent_volume:
            raise MissingObject(f'MountVolume.SetUp failed for volume "{name}" : claim "{claim}" is not bound')
        folder = Path(persistent_volume["spec"]["hostPath"]["path"])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write(folder: Path, contents: Mapping[str, bytes], source: Object, description: str, volume: str) -> None:
    """Write the keys of a ConfigMap or Secret to files: the named keys, or all of them."""
    paths = {item["key"]: item["path"] for item in source.get("items", ())} or {key: key for key in contents}
    for key, path in paths.items():
        if key not in contents:
            if source.get("optional"):
                continue
            problem = f"references non-existent {description.split()[0]} key: {key}"
            raise MissingObject(f'MountVolume.SetUp failed for volume "{volume}" : {problem}')
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(contents[key])
    folder.mkdir(parents=True, exist_ok=True)


async def _value(api: Api, pod: Object, variable: Object) -> str | None:
    """The value of a variable; None if it is optional and missing."""
    source: Any = variable.get("valueFrom")
    if source is None:
        return str(variable.get("value", ""))
    for kind, reference, kind_name in (
        ("configMap", "configMapKeyRef", "ConfigMap"),
        ("secret", "secretKeyRef", "Secret"),
    ):
        if reference in source:
            contents = await _read(api, pod, kind, source[reference])
            key, object_name = source[reference]["key"], f"{pod['metadata']['namespace']}/{source[reference]['name']}"
            if contents is not None and key in contents:
                return contents[key].decode()
            if source[reference].get("optional"):
                return None
            raise MissingObject(f"couldn't find key {key} in {kind_name} {object_name}")
    return _field(pod, source.get("fieldRef", {}).get("fieldPath", ""))


def _field(pod: Object, path: str) -> str:
    """The value of a pod field."""
    if match := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return str(pod["metadata"].get(match[1], {}).get(match[2], ""))
    value: Any = pod
    for part in path.split(".") if path else ():
        value = value.get(part, {})
    return str(value or "")


async def _read(
    api: Api, pod: Object, kind: str, reference: Object, volume: str | None = None
) -> dict[str, bytes] | None:
    """The content of a ConfigMap or Secret; None if it is optional and missing."""
    name = reference["name"]
    found = await api.find(f"/api/v1/namespaces/{pod['metadata']['namespace']}/{kind.lower()}s/{name}")
    if found is None:
        if reference.get("optional"):
            return None
        problem = f'{kind.lower()} "{name}" not found'
        raise MissingObject(f'MountVolume.SetUp failed for volume "{volume}" : {problem}' if volume else problem)
    encoded_values = found.get("binaryData" if kind == "configMap" else "data") or {}
    text_values = found.get("data") or {} if kind == "configMap" else {}
    return {key: base64.b64decode(value) for key, value in encoded_values.items()} | {
        key: value.encode() for key, value in text_values.items()
    }
