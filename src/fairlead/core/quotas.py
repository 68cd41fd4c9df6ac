"""What quotas count: what one run holds of a scope, and what many hold together."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from fairlead.model.columns import LARGEST
from fairlead.model.plans import Setting
from fairlead.model.quantities import MILLICORE, NANOS, Form, Quantity


class Held(NamedTuple):
    """What a run holds until it is finished, all its pods together. A part of a GPU counts as one."""

    gpus: int = 0
    cpu_millicores: int = 0
    mem_bytes: int = 0


@dataclass(frozen=True)
class Used:
    """What runs that are not finished hold together, as a quota says it."""

    gpu: int
    cpu: str
    mem: str
    runs: int


def count(settings: Iterable[Setting]) -> Held:
    """What a run with these settings holds: what it requests, which is set aside for it, for each of its pods."""
    values: Mapping[str, Any] = {setting.path: setting.value for setting in settings}
    pods = values.get("replicas") or 1
    cpu, mem = (values.get(f"resources.{name}.requests") or Quantity(0) for name in ("cpu", "mem"))
    return Held(
        gpus=(values.get("resources.gpu.devices") or 0) * pods,
        cpu_millicores=_bound(cpu.times(pods, step_nanos=MILLICORE).nanos // MILLICORE),
        mem_bytes=_bound(mem.times(pods, step_nanos=NANOS).nanos // NANOS),
    )


def add_up(tallies: Iterable[tuple[Held, int]]) -> Used:
    """What runs hold together, of each of which there are so many."""
    counted = list(tallies)
    gpus, cores, memory = (sum(held[part] * number for held, number in counted) for part in range(3))
    return Used(
        gpu=gpus,
        cpu=str(Quantity(cores * MILLICORE)),
        mem=str(Quantity(memory * NANOS, Form.BINARY)),
        runs=sum(number for _, number in counted),
    )


def _bound(number: int) -> int:
    """As much as a column holds, which is more than there is."""
    return min(number, LARGEST)
