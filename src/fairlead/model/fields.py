"""The paths of settings: which there are, and what kind of value stands at each. Policies name them in rules."""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, get_args

from fairlead.model.names import LABEL_VALUE
from fairlead.model.numbers import (
    parse_bytes,
    parse_count,
    parse_cpu,
    parse_duration,
    parse_gpu_memory,
    parse_id,
    parse_whole,
)
from fairlead.model.oom_retries import parse_growth
from fairlead.model.parsing import nearest, parse_flag, parse_text, show, wrong
from fairlead.model.requests import Action, Kind, PullPolicy, parse_priority
from fairlead.model.resources import parse_devices, parse_mig
from fairlead.model.volumes import VolumeType

Parse = Callable[[Any], Any]


def one_of(*words: str) -> Parse:
    """A parser of one of a few words."""

    def parse_word(value: Any) -> str:
        if value not in words:
            message = f"must be one of {', '.join(words)}, found {show(value)}"
            raise wrong("options", message, nearest(str(value), words, "write one of {known}"))
        return str(value)

    return parse_word


# Values that are ordered, so that a rule may give them a minimum and a maximum.
ORDERED: Mapping[str, Parse] = {
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
    "replicas": parse_whole,
    "deadline": parse_duration,
    "idle_timeout": parse_duration,
    "retries": parse_whole,
    "on_oom.grow": parse_growth,
    "on_oom.max": parse_bytes,
    "priority": parse_priority,
}

# Values that are only equal or not.
PLAIN: Mapping[str, Parse] = {
    "action": one_of(*get_args(Action)),
    "function.kind": one_of(*get_args(Kind)),
    "function.image": parse_text,
    "function.pull_policy": one_of(*get_args(PullPolicy)),
    "resources.gpu.type": LABEL_VALUE.check,
    "resources.gpu.mig": parse_mig,
    "node_selector.*": LABEL_VALUE.check,
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

# Places with something below them: these can be required and locked as a whole.
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

# A scalar is the request: what a rule on the resource itself bounds.
SCALARS: Mapping[str, str] = {
    "resources.cpu": "resources.cpu.requests",
    "resources.mem": "resources.mem.requests",
    "resources.disk": "resources.disk.requests",
    "resources.gpu": "resources.gpu.devices",
    "resources.gpu.memory": "resources.gpu.memory.request",
}

KNOWN: tuple[str, ...] = (*ORDERED, *PLAIN, *SECTIONS)


def value_path(path: str) -> str:
    """The path at which the value of a field stands: a scalar's is its request."""
    return SCALARS.get(path, path)


def generic_path(path: str) -> str | None:
    """The known path that covers this one, with `*` for names; None if there is none."""
    if path in KNOWN:
        return path
    return next((known for known in KNOWN if "*" in known and pattern_of(known).fullmatch(path)), None)


@cache
def pattern_of(path: str) -> re.Pattern[str]:
    """What a path with `*` for a name matches. Names of volumes have no dots, other names may."""
    name = "[^.]+" if path.startswith("volumes.") else ".+"
    return re.compile(name.join(map(re.escape, path.split("*"))))
