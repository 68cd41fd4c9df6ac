"""What this machine can do for runs, in words: what it has, and how runs are kept apart."""

from collections.abc import Iterator

from fairlead.adapters.local.machines import GPU, Machine
from fairlead.core.fitting.formatting import show_amount
from fairlead.model.observations import Check


def check_machine(machine: Machine, *, is_root: bool) -> Iterator[Check]:
    """What is there for runs, and what is not."""
    has = {name: show_amount(name, amount) for name, amount in machine.capacity.items()}
    amounts = f"{has['cpu']} cores, {has['memory']} of memory, {has['ephemeral-storage']} of disk"
    yield Check("machine", "ok", f"{machine.name} has {amounts}, and room for {has['pods']} runs")
    if is_root:
        yield Check("users", "ok", "each run has a user of its own")
    else:
        message = "runs share the user of the server"
        yield Check("users", "warning", message, "start the server as root where runs are not all yours")
    if machine.isolation_error is None:
        yield Check("isolation", "ok", "each run has its own view of the machine, and mounts its volumes there")
    else:
        message = f"runs see all of the machine and cannot mount volumes: {machine.isolation_error}"
        yield Check("isolation", "warning", message, "allow user namespaces on this machine, or run the server as root")
    products = sorted({gpu.product for gpu in machine.gpus if gpu.product})
    named = f": {', '.join(products)}" if products else ""
    yield Check("gpus", "ok", f"{has[GPU]} GPUs{named}" if machine.gpus else "there is no GPU that NVML knows")
