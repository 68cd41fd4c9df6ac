"""Formats resources and amounts for messages."""

from fairlead.core.fitting.pod_resources import PODS
from fairlead.model.quantities import NANOS, Quantity, QuantityFormat

NAMES = {"memory": "memory", "ephemeral-storage": "disk", PODS: "pods"}
PATHS = {"cpu": "resources.cpu", "memory": "resources.mem", "ephemeral-storage": "resources.disk"}
SIZES = ("memory", "ephemeral-storage")


def name_resource(resource: str, amount: int = NANOS) -> str:
    """The name of a resource in a sentence, in the plural if the amount requires it."""
    plural = "s" * (amount != NANOS)
    if resource == "cpu":
        return f"CPU core{plural}"
    return f"GPU{plural}" if resource.endswith("/gpu") else NAMES.get(resource, resource)


def path_of(resource: str) -> str:
    """The path of the request field that sets a resource."""
    # Each MIG profile is a separate resource in Kubernetes, but the request has one field for all of them.
    if resource.startswith("nvidia.com/mig-"):
        return "resources.gpu.mig"
    return "resources.gpu" if resource.endswith("/gpu") else PATHS.get(resource, f"resources.extended.{resource}")


def show_amount(resource: str, nanos: int) -> str:
    """An amount in Kubernetes notation, with memory rounded to one decimal: 1.5Gi."""
    if resource not in SIZES:
        return str(nanos // NANOS) if nanos % NANOS == 0 else str(Quantity(nanos, QuantityFormat.DECIMAL))
    size = nanos // NANOS
    for unit, name in ((2**40, "Ti"), (2**30, "Gi"), (2**20, "Mi")):
        if size >= unit:
            return f"{size / unit:.1f}".removesuffix(".0") + name
    return str(size)


def describe_amount(resource: str, nanos: int) -> str:
    """An amount for messages, such as 1.5 GiB."""
    if resource not in SIZES:
        return f"{nanos / NANOS:.3f}".rstrip("0").rstrip(".")
    size = nanos // NANOS
    for unit, name in ((2**40, "TiB"), (2**30, "GiB"), (2**20, "MiB")):
        if size >= unit:
            return f"{size / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{size} bytes" if size else "0"


def describe_pair(resource: str, one: int, other: int) -> tuple[str, str]:
    """Two amounts for the same sentence, in bytes if rounding would make different amounts look equal."""
    described = describe_amount(resource, one), describe_amount(resource, other)
    if described[0] != described[1] or one == other:
        return described
    unit = " bytes" if resource in SIZES else ""
    return f"{Quantity(one, QuantityFormat.DECIMAL)}{unit}", f"{Quantity(other, QuantityFormat.DECIMAL)}{unit}"
