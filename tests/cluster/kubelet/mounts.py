"""Volumes and environment variables of a pod: folders on this machine, ConfigMaps and Secrets."""

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.cluster.clients import Object
from tests.cluster.kubelet.api import Api

TERMINATION_LOG = "/dev/termination-log"


class NotYet(Exception):
    """Something that a pod refers to is not there; in the kubelet's words."""


@dataclass(frozen=True)
class Places:
    """Map mount paths of a container to folders of this machine. Other paths are unchanged."""

    folders: Mapping[str, Path]

    def place(self, text: str) -> str:
        """A text with every path in it replaced."""
        if not self.folders:
            return text
        paths = sorted(self.folders, key=len, reverse=True)
        pattern = r"(?<![\w./-])(" + "|".join(map(re.escape, paths)) + r")(?![\w.-])"
        return re.sub(pattern, lambda matched: str(self.folders[matched[1]]), text)


async def make_volumes(api: Api, pod: Object, folder: Path) -> dict[str, Path]:
    """The folders of a pod's volumes, filled. Raises NotYet where something of them is missing."""
    made = {}
    for volume in pod["spec"].get("volumes", ()):
        made[volume["name"]] = await _make_volume(api, pod, volume, folder / volume["name"])
    return made


def place_mounts(container: Object, volumes: Mapping[str, Path], termination: Path) -> Places:
    """Where what a container mounts is found."""
    folders = {container.get("terminationMessagePath", TERMINATION_LOG): termination}
    for mount in container.get("volumeMounts", ()):
        path = volumes[mount["name"]] / mount.get("subPath", "")
        if not path.exists():
            path.mkdir(parents=True)
        folders[mount["mountPath"].rstrip("/")] = path
    return Places(folders)


async def make_environment(api: Api, pod: Object, container: Object) -> dict[str, str]:
    """The environment of a container. Raises NotYet if a referenced object does not exist."""
    values: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        for kind, word in (("configMap", "configMapRef"), ("secret", "secretRef")):
            if word in source:
                found = await _read(api, pod, kind, source[word])
                values |= {source.get("prefix", "") + key: data.decode() for key, data in (found or {}).items()}
    for variable in container.get("env", ()):
        value = await _value(api, pod, variable)
        if value is not None:
            values[variable["name"]] = expand(value, values)
    return values


def expand(text: str, values: Mapping[str, str]) -> str:
    """A text with every $(NAME) replaced; a name that is not known stays as it is, and $$ is a dollar."""
    pattern = r"\$\$|\$\(([\w.-]+)\)"
    return re.sub(pattern, lambda matched: "$" if matched[0] == "$$" else values.get(matched[1], matched[0]), text)


async def _make_volume(api: Api, pod: Object, volume: Object, folder: Path) -> Path:
    name, namespace = volume["name"], pod["metadata"]["namespace"]
    for kind, word in (("configMap", "name"), ("secret", "secretName")):
        if kind in volume:
            source = volume[kind]
            found = await _read(api, pod, kind, {**source, "name": source[word]}, volume=name)
            _write(folder, found or {}, source, f"{kind.lower()} {namespace}/{source[word]}", name)
            return folder
    if "hostPath" in volume:
        return Path(volume["hostPath"]["path"])
    if "persistentVolumeClaim" in volume or "ephemeral" in volume:
        claim = volume.get("persistentVolumeClaim", {}).get("claimName") or f"{pod['metadata']['name']}-{name}"
        bound = await api.find(f"/api/v1/namespaces/{namespace}/persistentvolumeclaims/{claim}")
        kept = bound and await api.find(f"/api/v1/persistentvolumes/{bound['spec'].get('volumeName')}")
        if not kept:
            raise NotYet(f'MountVolume.SetUp failed for volume "{name}" : claim "{claim}" is not bound')
        folder = Path(kept["spec"]["hostPath"]["path"])
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _write(folder: Path, contents: Mapping[str, bytes], source: Object, description: str, volume: str) -> None:
    """Write the keys of a ConfigMap or a Secret, all or those that are named."""
    named = {item["key"]: item["path"] for item in source.get("items", ())} or {key: key for key in contents}
    for key, path in named.items():
        if key not in contents:
            if source.get("optional"):
                continue
            wrong = f"references non-existent {description.split()[0]} key: {key}"
            raise NotYet(f'MountVolume.SetUp failed for volume "{volume}" : {wrong}')
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(contents[key])
    folder.mkdir(parents=True, exist_ok=True)


async def _value(api: Api, pod: Object, variable: Object) -> str | None:
    """The value of a variable; None if it is optional and missing."""
    source: Any = variable.get("valueFrom")
    if source is None:
        return str(variable.get("value", ""))
    for kind, word, told in (("configMap", "configMapKeyRef", "ConfigMap"), ("secret", "secretKeyRef", "Secret")):
        if word in source:
            found = await _read(api, pod, kind, source[word])
            key, where = source[word]["key"], f"{pod['metadata']['namespace']}/{source[word]['name']}"
            if found is not None and key in found:
                return found[key].decode()
            if source[word].get("optional"):
                return None
            raise NotYet(f"couldn't find key {key} in {told} {where}")
    return _field(pod, source.get("fieldRef", {}).get("fieldPath", ""))


def _field(pod: Object, path: str) -> str:
    """A field of the pod itself."""
    if matched := re.fullmatch(r"metadata\.(labels|annotations)\['(.+)'\]", path):
        return str(pod["metadata"].get(matched[1], {}).get(matched[2], ""))
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
        wrong = f'{kind.lower()} "{name}" not found'
        raise NotYet(f'MountVolume.SetUp failed for volume "{volume}" : {wrong}' if volume else wrong)
    encoded = found.get("binaryData" if kind == "configMap" else "data") or {}
    plain = found.get("data") or {} if kind == "configMap" else {}
    return {key: base64.b64decode(value) for key, value in encoded.items()} | {
        key: value.encode() for key, value in plain.items()
    }
