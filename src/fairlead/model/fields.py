"""The paths of all settings, with a parser for each value. Policy rules refer to settings by these paths."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_args

from fairlead.model.names import LABEL_VALUE
from fairlead.model.parsing import field_error, parse_flag, parse_text, short_repr, suggest_names
from fairlead.model.quantities import (
    parse_bytes,
    parse_count,
    parse_cpu,
    parse_duration,
    parse_gpu_memory,
    parse_id,
    parse_integer,
)
from fairlead.model.requests import Action, Kind, PullPolicy, parse_growth, parse_priority
from fairlead.model.resources import VolumeType, parse_devices, parse_mig

Parser = Callable[[Any], Any]


def one_of(*words: str) -> Parser:
    """A parser that accepts only these words."""

    def parse_word(value: Any) -> str:
        if value not in words:
            message = f"must be one of {', '.join(words)}, found {short_repr(value)}"
            raise field_error("options", message, suggest_names(str(value), words, "use one of {known}"))
        return str(value)

    return parse_word


# Settings with ordered values. Rules can set a minimum and a maximum for them.
ORDERED: Mapping[str, Parser] = {
    "resources.cpu.requests": parse_cpu,
    "resources.cpu.limits": parse_cpu,
    "resources.mem.requests": parse_bytes,
    "resources.mem.limits": parse_bytes,
    "resources.disk.requests": parse_bytes,
    "resources.disk.limits": parse_bytes,
    "resources.gpu.devices": parse_devices,
    "resources.gpu.memory.request": parse_gpu_memory,
    "resources.gpu.memory.limit": parse_gpu_memory,
    "resources.shm": parse_bytes,
    "resources.extended.*": parse_count,
    "volumes.*.spec.size": parse_bytes,
    "fs_group": parse_id,
    "run_as_user": parse_id,
    "run_as_group": parse_id,
    "replicas": parse_integer,
    "deadline": parse_duration,
    "idle_timeout": parse_duration,
    "retries": parse_integer,
    "on_oom.grow": parse_growth,
    "on_oom.max": parse_bytes,
    "priority": parse_priority,
}

# Settings with unordered values. Rules can list options for them.
UNORDERED: Mapping[str, Parser] = {
    "action": one_of(*get_args(Action)),
    "function.kind": one_of(*get_args(Kind)),
    "function.image": parse_text,
    "function.pull_policy": one_of(*get_args(PullPolicy)),
    "resources.gpu.type": LABEL_VALUE.parse,
    "resources.gpu.mig": parse_mig,
    "node_selector.*": LABEL_VALUE.parse,
    "envs.*": parse_text,
    "volumes.*.volume_type": one_of(*get_args(VolumeType)),
    "volumes.*.mount_path": parse_text,
    "volumes.*.sub_path": parse_text,
    "volumes.*.read_only": parse_flag,
    "volumes.*.spec.storage_class": parse_text,
    "volumes.*.spec.claim_name": parse_text,
    "volumes.*.spec.name": parse_text,
    "volumes.*.spec.medium": parse_text,
    "runtime_class": parse_text,
    "priority_class": parse_text,
    "profile": parse_text,
    "template": parse_text,
}

# Paths of nested settings. Rules can require or lock them as a whole.
SECTIONS: tuple[str, ...] = (
    "on_oom",
    "function.pull_secrets",
    "function.pull_secrets.*",
    "resources",
    "resources.cpu",
    "resources.mem",
    "resources.disk",
    "resources.gpu",
    "resources.gpu.memory",
    "resources.extended",
    "node_selector",
    "tolerations",
    "tolerations.*",
    "affinity",
    "affinity.*",
    "volumes",
    "volumes.*",
    "secrets",
    "secrets.*",
    "envs",
)

# A scalar value for a resource sets its request, so a rule at the resource's path applies to the request.
REQUEST_PATHS: Mapping[str, str] = {
    "resources.cpu": "resources.cpu.requests",
    "resources.mem": "resources.mem.requests",
    "resources.disk": "resources.disk.requests",
    "resources.gpu": "resources.gpu.devices",
    "resources.gpu.memory": "resources.gpu.memory.request",
}

KNOWN: tuple[str, ...] = (*ORDERED, *UNORDERED, *SECTIONS)


def value_path(path: str) -> str:
    """The path of the value that a rule at `path` applies to. For a resource, this is the request."""
    return REQUEST_PATHS.get(path, path)


def generic_path(path: str) -> str | None:
    """The known path that matches this one, with `*` in place of names, or None."""
    # A rule may also use the pattern itself, such as resources.extended.*, to cover all names.
    if path in KNOWN:
        return path
    return next((known for known in KNOWN if "*" in known and pattern_of(known).fullmatch(path)), None)


@cache
def pattern_of(path: str) -> re.Pattern[str]:
    """A regular expression for a path with `*` in place of a name. Volume names have no dots, other names may."""
    name = "[^.]+" if path.startswith("volumes.") else ".+"
    return re.compile(name.join(map(re.escape, path.split("*"))))
