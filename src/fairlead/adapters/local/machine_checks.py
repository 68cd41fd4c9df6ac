"""Checks this machine: its resources, and how it isolates runs."""

from collections.abc import Iterator

from fairlead.adapters.local.machines import GPU, Machine
from fairlead.model.runs import Check
from fairlead.scheduling.reasons import show_amount


def check_machine(machine: Machine, *, is_root: bool) -> Iterator[Check]:
    """Check this machine's resources and isolation."""
    capacity = {name: show_amount(name, amount) for name, amount in machine.capacity.items()}
    amounts = f"{capacity['cpu']} cores, {capacity['memory']} of memory, {capacity['ephemeral-storage']} of disk"
    yield Check("machine", "ok", f"{machine.name} has {amounts}, and capacity for {capacity['pods']} runs")
    if is_root:
        yield Check("users", "ok", "each run has its own user")
    else:
        message = "runs use the same user as the server"
        yield Check("users", "warning", message, "start the server as root if other people submit runs")
    if machine.isolation_error is None:
        yield Check("isolation", "ok", "each run has its own namespaces and can mount volumes")
    else:
        message = f"runs see the whole machine and cannot mount volumes: {machine.isolation_error}"
        yield Check("isolation", "warning", message, "allow user namespaces on this machine, or run the server as root")
    products = sorted({gpu.product for gpu in machine.gpus if gpu.product})
    named = f": {', '.join(products)}" if products else ""
    yield Check("gpus", "ok", f"{capacity[GPU]} GPUs{named}" if machine.gpus else "NVML reports no GPUs")
