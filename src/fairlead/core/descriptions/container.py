"""What a pod finds inside: volumes, variables and secrets, and as whom its program runs."""

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from fairlead.core.descriptions.amounts import size
from fairlead.core.descriptions.facts import Facts, describe_source, format_list, is_set
from fairlead.model.plans import Layer, Sentence, Setting

Parts = Mapping[str, Any]


def describe_volumes(facts: Facts) -> Iterator[Sentence]:
    """What is mounted, who made it, and when it goes."""
    volumes: dict[str, dict[str, Setting]] = {}
    for rest, setting in facts.below("volumes").items():
        name, _, part = rest.partition(".")
        volumes.setdefault(name, {})[part] = setting
    for name, settings in volumes.items():
        path, parts = f"volumes.{name}", {part: setting.value for part, setting in settings.items()}
        told = f"{_describe_volume(name, parts, local=facts.is_local)}{_describe_mount(parts)}."
        yield Sentence(path, "gets", told)
        yield from _describe_end(path, parts, facts)
        yield from describe_source(facts, path, settings["volume_type"])


def describe_variables(facts: Facts) -> Iterator[Sentence]:
    """Variables that are set, those of each source together, and secrets that become some."""
    for section, told in (
        ("envs", "{Variable} {names} {is} set."),
        ("secrets", "{Secret} {names} of the project {becomes} {variable} of that name. A project must have {it}."),
    ):
        found = sorted(facts.below(section).items(), key=lambda item: (str(item[1].source), item[0]))
        for _, group in groupby(found, key=lambda item: item[1].source):
            said = dict(group)
            words = _MANY if len(said) > 1 else _ONE
            yield Sentence(section, "gets", told.format(names=format_list(list(said)), **words))
            yield from describe_source(facts, section, next(iter(said.values())))


def describe_ids(facts: Facts) -> Iterator[Sentence]:
    """As whom the program runs, where somebody says so."""
    for field, text in (
        ("run_as_user", "The program runs as user {}{}."),
        ("run_as_group", "The program runs in group {}{}."),
        ("fs_group", "Mounted volumes belong to group {}{}."),
    ):
        setting = facts.settings.get(field)
        if setting is not None and is_set(setting):
            root = " (root)" if setting.value == 0 else ""
            yield Sentence(field, "note", text.format(setting.value, root))
            yield from describe_source(facts, field, setting)


def describe_profile(facts: Facts) -> Iterator[Sentence]:
    """The compute resource that a template leads to."""
    setting = facts.settings.get("profile")
    if facts.own is Layer.TEMPLATE and setting is not None and setting.value is not None:
        yield Sentence("profile", "gets", f"A run gets compute resource {setting.value}, unless it names another.")
        yield from describe_source(facts, "profile", setting)


def _describe_volume(name: str, parts: Parts, *, local: bool) -> str:
    kind, amount = parts["volume_type"], parts.get("spec.size")
    stored = f" (storage class {parts['spec.storage_class']})" if "spec.storage_class" in parts and not local else ""
    room = "" if amount is None else size(amount)
    match kind:
        case "persistent_volume_claim" | "ephemeral" if local:
            return "A folder of the machine, made for the run and removed with it,"
        case "persistent_volume_claim":
            return f"A volume of {room}{stored}, made for the run and removed with it,"
        case "ephemeral":
            return f"A volume of {room}{stored} for each pod, made for it and removed with it,"
        case "empty_dir":
            memory = " in memory" if parts.get("spec.medium") else ""
            bound = f", up to {room}" if room and (memory or not local) else ""
            return f"An empty folder{memory}{bound}, removed with the pod,"
        case "secret":
            return f"Secret {parts['spec.name']} of the project, which must have it,"
        case "shared_volume":
            return f"Volume {parts['spec.claim_name']} of the project, which other runs share,"
        case _:
            return f"Config map {parts.get('spec.name', name)}, which must be there,"


def _describe_mount(parts: Parts) -> str:
    inside = f" (its folder {parts['sub_path']})" if "sub_path" in parts else ""
    name = parts["spec.name"] if parts["volume_type"] == "secret" and not inside else ""
    where = "/".join(filter(None, (parts["mount_path"], name)))
    return f" is at {where}{inside}{', read-only' if parts.get('read_only') else ''}"


def _describe_end(path: str, parts: Parts, facts: Facts) -> Iterator[Sentence]:
    """What ends a run on account of a volume."""
    kind, memory, amount = parts["volume_type"], parts.get("spec.medium"), parts.get("spec.size")
    if kind == "empty_dir" and memory:
        yield Sentence(path, "note", "What is in it counts as memory of the pod.")
    elif kind == "empty_dir" and amount is not None and not facts.is_local:
        yield Sentence(path, "risk", f"A pod that writes more than {size(amount)} there is evicted: its run ends.")
    elif kind == "config_map" and facts.is_local:
        yield Sentence(path, "risk", "The cluster is one machine and has no config maps: the run fails when it starts.")
    elif kind in ("persistent_volume_claim", "ephemeral") and facts.is_local and amount is not None:
        yield Sentence(path, "note", f"The cluster does not hold it to {size(amount)}.")


_ONE = {
    "Variable": "Variable",
    "Secret": "Secret",
    "is": "is",
    "becomes": "becomes",
    "variable": "a variable",
    "it": "it",
}
_MANY = {
    "Variable": "Variables",
    "Secret": "Secrets",
    "is": "are",
    "becomes": "become",
    "variable": "variables",
    "it": "them",
}
