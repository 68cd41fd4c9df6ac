"""Outcomes of simulated pods, derived from the image name.

For example `example.test/oom` or `example.test/exit-3:1.0`. Tests can register outcomes for other images, and an
annotation on the pod overrides the image.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tests.cluster.clients import Object

Kind = Literal["exit", "sleep", "oom", "evicted", "no-such-image", "config-error"]

HOST = "example.test/"
ANNOTATION = "fairlead.test/outcome"


@dataclass(frozen=True)
class Outcome:
    """A simulated container's outcome: its duration, exit code and log."""

    kind: Kind
    exit_code: int = 0
    seconds: float = 0.2
    log: str = ""
    message: str = ""  # the termination message


SLEEP = Outcome("sleep")
SUCCEED = Outcome("exit")
BY_NAME: dict[str, Outcome] = {
    "succeed": SUCCEED,
    "sleep": SLEEP,
    "oom": Outcome("oom", 137),
    "evicted": Outcome("evicted", 137),
    "no-such-image": Outcome("no-such-image"),
    "config-error": Outcome("config-error"),
}


def outcome_of(pod: Object, image: str, registered: Mapping[str, Outcome]) -> Outcome | None:
    """The simulated outcome for an image; None if the container executes its command."""
    if image in registered:
        return registered[image]
    annotation = (pod["metadata"].get("annotations") or {}).get(ANNOTATION)
    if annotation is None and not image.startswith(HOST):
        return None
    name = annotation or re.split("[:@]", image.removeprefix(HOST))[0].rpartition("/")[2]
    if match := re.fullmatch(r"exit-(\d+)", name):
        return Outcome("exit", int(match[1]), log=f"going to exit with {match[1]}\n")
    return BY_NAME[name]
