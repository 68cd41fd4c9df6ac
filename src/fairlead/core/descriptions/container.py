"""Descriptions of the container: volumes, variables, secrets and user IDs."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from fairlead.core.descriptions.amounts import format_size
from fairlead.core.descriptions.facts import Facts, describe_source, format_list, is_set
from fairlead.model.plans import Layer, Sentence, Setting

Parts = Mapping[str, Any]


def describe_volumes(facts: Facts) -> Iterator[Sentence]:
    """Each volume with its mount path and lifetime."""
    volumes: dict[str, dict[str, Setting]] = {}
    for rest, setting in facts.section("volumes").items():
        name, _, part = rest.partition(".")
        volumes.setdefault(name, {})[part] = setting
    for name, settings in volumes.items():
        path, parts = f"volumes.{name}", {part: setting.value for part, setting in settings.items()}
        yield Sentence(path, "gets", _describe_volume(name, parts, local=facts.is_local))
        yield from _describe_consequence(path, parts, facts)
        yield from describe_source(facts, path, settings["volume_type"])


def describe_variables(facts: Facts) -> Iterator[Sentence]:
    """Environment variables and secrets, grouped by source."""
    for section, text in (
        ("envs", "Sets variable{s} {names}."),
        ("secrets", "Sets variable{s} {names} from the project's secrets (must exist)."),
    ):
        # groupby only joins adjacent entries, so entries with the same source must be next to each other.
        settings = sorted(facts.section(section).items(), key=lambda item: (str(item[1].source), item[0]))
        for _, group in groupby(settings, key=lambda item: item[1].source):
            by_name = dict(group)
            plural = "s" if len(by_name) > 1 else ""
            yield Sentence(section, "gets", text.format(names=format_list(list(by_name)), s=plural))
            yield from describe_source(facts, section, next(iter(by_name.values())))


def describe_ids(facts: Facts) -> Iterator[Sentence]:
    """User and group IDs, if they are set."""
    for field, text in (
        ("run_as_user", "Runs as user {}{}."),
        ("run_as_group", "Runs as group {}{}."),
        ("fs_group", "Volumes belong to group {}{}."),
    ):
        setting = facts.settings.get(field)
        if setting is not None and is_set(setting):
            root = " (root)" if setting.value == 0 else ""
            yield Sentence(field, "note", text.format(setting.value, root))
            yield from describe_source(facts, field, setting)


def describe_profile(facts: Facts) -> Iterator[Sentence]:
    """The compute resource of a template."""
    setting = facts.settings.get("profile")
    # For a compute resource, this would be the described object itself.
    if facts.own is Layer.TEMPLATE and setting is not None and setting.value is not None:
        yield Sentence("profile", "gets", f"Uses compute resource {setting.value} by default.")
        yield from describe_source(facts, "profile", setting)


def _describe_volume(name: str, parts: Parts, *, local: bool) -> str:
    kind, amount = parts["volume_type"], parts.get("spec.size")
    storage_class = (
        f" (storage class {parts['spec.storage_class']})" if "spec.storage_class" in parts and not local else ""
    )
    size = "" if amount is None else format_size(amount)
    mount = _describe_mount(parts)
    match kind:
        case "persistent_volume_claim" | "ephemeral" if local:
            return f"New folder on the machine{mount}, deleted with the run."
        case "persistent_volume_claim":
            return f"New volume of {size}{storage_class}{mount}, deleted with the run."
        case "ephemeral":
            return f"New volume of {size}{storage_class} per pod{mount}, deleted with the pod."
        case "empty_dir":
            memory = " in memory" if parts.get("spec.medium") else ""
            # The local executor limits only folders in memory (tmpfs).
            limit = f" of up to {size}" if size and (memory or not local) else ""
            return f"Empty folder{memory}{limit}{mount}, deleted with the pod."
        case "secret":
            return f"Project secret {parts['spec.name']}{mount} (must exist)."
        case "shared_volume":
            return f"Shared project volume {parts['spec.claim_name']}{mount}."
        case _:
            return f"ConfigMap {parts.get('spec.name', name)}{mount} (must exist)."


def _describe_mount(parts: Parts) -> str:
    folder = f" (folder {parts['sub_path']})" if "sub_path" in parts else ""
    # A mounted secret is a file in the mount path, named after the secret.
    name = parts["spec.name"] if parts["volume_type"] == "secret" and not folder else ""
    path = "/".join(filter(None, (parts["mount_path"], name)))
    return f" at {path}{folder}{', read-only' if parts.get('read_only') else ''}"


def _describe_consequence(path: str, parts: Parts, facts: Facts) -> Iterator[Sentence]:
    """Consequences of using a volume: eviction, memory usage, or a failed start."""
    kind, memory, amount = parts["volume_type"], parts.get("spec.medium"), parts.get("spec.size")
    if kind == "empty_dir" and memory:
        yield Sentence(path, "note", "Its content counts toward the pod's memory.")
    elif kind == "empty_dir" and amount is not None and not facts.is_local:
        yield Sentence(path, "risk", f"Evicted above {format_size(amount)} in this folder, which ends the run.")
    elif kind == "config_map" and facts.is_local:
        yield Sentence(path, "risk", "The local cluster has no ConfigMaps, so the run fails when it starts.")
    elif kind in ("persistent_volume_claim", "ephemeral") and facts.is_local and amount is not None:
        yield Sentence(path, "note", f"The cluster does not enforce the size of {format_size(amount)}.")
