"""Checking what was resolved against the switches of the policies."""

from collections.abc import Iterator

from fairlead.core.drafts import Draft
from fairlead.model.plans import Layer, SourcedValue, Violation
from fairlead.model.volumes import EXISTING, SIZED

IDS = ("run_as_user", "run_as_group", "fs_group")


def check_existing_volumes(draft: Draft) -> Iterator[Violation]:
    """Volumes that the platform did not make need to be allowed."""
    switch = draft.switches["existing_volumes"]
    if switch.value == "allow":
        return
    for name, parts in draft.resolution.named("volumes").items():
        if parts["volume_type"] in EXISTING:
            message = f"{parts['volume_type']} uses an existing volume; {_refusal(switch)}"
            hint = "use a volume that the platform makes, or ask for a policy with existing_volumes: allow"
            yield Violation(f"volumes.{name}.volume_type", "existing_volumes", message, hint, switch.source)


def check_storage_classes(draft: Draft) -> Iterator[Violation]:
    """Claims use the storage classes that are allowed; where only some are, they say which."""
    switch = draft.switches["storage_classes"]
    if switch.value is None:
        return
    allowed = ", ".join(switch.value) or "none"
    for name, parts in draft.resolution.named("volumes").items():
        found = parts.get("spec.storage_class")
        if parts["volume_type"] in SIZED and found not in switch.value:
            said = f"asks for storage class {found}" if found else "says no storage class"
            message = f"{said}; the {switch.source} allows {allowed}"
            hint = f"set it to one of {allowed}" if switch.value else "use a volume of type empty_dir"
            yield Violation(f"volumes.{name}.spec.storage_class", "storage_classes", message, hint, switch.source)


def check_registries(draft: Draft) -> Iterator[Violation]:
    """Images come from the registries that are allowed."""
    switch, image = draft.switches["registries"], draft.resolution.value("function", "image")
    if switch.value is None or image is None:
        return
    if not any(_is_below(_full_image(image), registry) for registry in switch.value):
        allowed = ", ".join(switch.value)
        message = f"image {image} comes from elsewhere; the {switch.source} allows {allowed or 'no registry at all'}"
        hint = f"use an image of {allowed}" if allowed else "nothing suits all scopes: ask an administrator"
        yield Violation("function.image", "registries", message, hint, switch.source)


def check_compute_resource(draft: Draft) -> Iterator[Violation]:
    """Where a compute resource is required, a run names one."""
    switch = draft.switches["compute_resource"]
    if switch.value == "required" and draft.resolution.value("profile") is None:
        message = f"names no compute resource; the {switch.source} requires one"
        known = ", ".join(sorted(draft.snapshot.compute_resources))
        hint = f"choose one: {known}" if known else "ask an administrator for one: there is none yet"
        yield Violation("profile", "compute_resource", message, hint, switch.source)


def check_root(draft: Draft) -> Iterator[Violation]:
    """Nothing runs as root unless that is allowed."""
    switch = draft.switches["allow_root"]
    for name in IDS:
        setting = draft.resolution.setting(name)
        if setting and setting.value == 0 and setting.source.layer is not Layer.ENFORCED and not switch.value:
            message, hint = f"0 is root; {_refusal(switch)}", "use 1000, say, or ask for a policy with allow_root: true"
            yield Violation(name, "allow_root", message, hint, switch.source)


def check_gpu_memory_limits(draft: Draft) -> Iterator[Violation]:
    """A GPU memory limit over the request is lent memory: it needs to be switched on."""
    switch = draft.switches["gpu_memory_limits"]
    request, limit = draft.gpu_memory, draft.gpu_memory_limit
    if limit is not None and limit != request and not switch.value:
        message = f"limit {limit} of GPU memory is over the request {request}; {_refusal(switch)}"
        hint = f"set it to {request}, or ask for a policy with gpu_memory_limits: true"
        yield Violation("resources.gpu.memory.limit", "gpu_memory_limits", message, hint, switch.source)


def _refusal(switch: SourcedValue) -> str:
    """Who does not allow it: a policy, or none that would have to."""
    return "no policy allows it" if switch.source.layer is Layer.PLATFORM else f"the {switch.source} does not allow it"


def _full_image(image: str) -> str:
    """An image with the registry that is meant where none is written."""
    first, slash, _ = image.partition("/")
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"docker.io/{image}" if slash else f"docker.io/library/{image}"


def _is_below(image: str, registry: str) -> bool:
    return image.startswith(registry.removesuffix("/") + "/")
