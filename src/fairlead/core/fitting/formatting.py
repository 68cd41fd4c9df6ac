"""Resources and amounts in sentences, as people write them."""

from fairlead.core.fitting.pod_resources import PODS
from fairlead.model.quantities import NANOS, Form, Quantity

WORDS = {"cpu": "CPU", "memory": "memory", "ephemeral-storage": "disk", PODS: "runs at once"}
PATHS = {"cpu": "resources.cpu", "memory": "resources.mem", "ephemeral-storage": "resources.disk"}
SIZES = ("memory", "ephemeral-storage")


def name_resource(resource: str, amount: int = NANOS) -> str:
    """A resource in a sentence, after an amount of it."""
    return WORDS.get(resource, "GPU" + "s" * (amount != NANOS) if resource.endswith("/gpu") else resource)


def path_of(resource: str) -> str:
    """What of a request asks for a resource."""
    if resource.startswith("nvidia.com/mig-"):
        return "resources.gpu.mig"
    return "resources.gpu" if resource.endswith("/gpu") else PATHS.get(resource, f"resources.extended.{resource}")


def show_amount(resource: str, nanos: int) -> str:
    """An amount as people write it: memory in round binary units, everything else as it is."""
    if resource not in SIZES:
        return str(nanos // NANOS) if nanos % NANOS == 0 else str(Quantity(nanos, Form.DECIMAL))
    size = nanos // NANOS
    for unit, name in ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi")):
        if size >= unit:
            return f"{size / unit:.1f}".removesuffix(".0") + name
    return str(size)


def show_distinct(resource: str, one: int, other: int) -> tuple[str, str]:
    """Two amounts as people write them; to the last byte where they would look the same."""
    shown = show_amount(resource, one), show_amount(resource, other)
    if shown[0] != shown[1] or one == other:
        return shown
    return str(Quantity(one, Form.DECIMAL)), str(Quantity(other, Form.DECIMAL))
