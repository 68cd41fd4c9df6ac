"""Checks resolved settings against policy switches."""

from collections.abc import Iterator

from fairlead.model.plans import Layer, SourcedValue, Violation
from fairlead.model.resources import EXISTING, SIZED
from fairlead.resolution.drafts import Draft

IDS = ("run_as_user", "run_as_group", "fs_group")


def check_existing_volumes(draft: Draft) -> Iterator[Violation]:
    """Existing volumes must be allowed."""
    switch = draft.switches["existing_volumes"]
    if switch.value == "allow":
        return
    for name, parts in draft.resolution.named("volumes").items():
        if parts["volume_type"] in EXISTING:
            message = f"{parts['volume_type']} uses an existing volume; {_describe_denial(switch)}"
            hint = "use a new volume, or ask an administrator to set existing_volumes to allow"
            yield Violation(f"volumes.{name}.volume_type", "existing_volumes", message, hint, switch.source)


def check_storage_classes(draft: Draft) -> Iterator[Violation]:
    """If only some storage classes are allowed, claims must name one of them."""
    switch = draft.switches["storage_classes"]
    if switch.value is None:
        return
    allowed = ", ".join(switch.value) or "none"
    for name, parts in draft.resolution.named("volumes").items():
        # A claim without a class would get the cluster's default class, which may not be allowed.
        requested = parts.get("spec.storage_class")
        if parts["volume_type"] in SIZED and requested not in switch.value:
            description = f"storage class {requested} requested" if requested else "has no storage class"
            message = f"{description}; the {switch.source} allows {allowed}"
            hint = f"set it to one of {allowed}" if switch.value else "use a volume of type empty_dir"
            yield Violation(f"volumes.{name}.spec.storage_class", "storage_classes", message, hint, switch.source)


def check_registries(draft: Draft) -> Iterator[Violation]:
    """Images must come from an allowed registry."""
    switch, image = draft.switches["registries"], draft.resolution.value("function", "image")
    if switch.value is None or image is None:
        return
    # python:3.12 is an image from docker.io, although its name does not contain the registry.
    if not any(_is_inside(_full_image(image), registry) for registry in switch.value):
        allowed = ", ".join(switch.value)
        message = (
            f"image {image} is not from an allowed registry; the {switch.source} allows {allowed or 'no registry'}"
        )
        hint = (
            f"use an image from {allowed}" if allowed else "no registry is allowed in all scopes; ask an administrator"
        )
        yield Violation("function.image", "registries", message, hint, switch.source)


def check_compute_resource(draft: Draft) -> Iterator[Violation]:
    """A run must use a compute resource if policies require one."""
    switch = draft.switches["compute_resource"]
    if switch.value == "required" and draft.resolution.value("profile") is None:
        message = f"no compute resource is set; the {switch.source} requires one"
        known = ", ".join(sorted(draft.snapshot.compute_resources))
        hint = f"choose one: {known}" if known else "ask an administrator to create one; there are none yet"
        yield Violation("profile", "compute_resource", message, hint, switch.source)


def check_root(draft: Draft) -> Iterator[Violation]:
    """Running as root must be allowed."""
    switch = draft.switches["allow_root"]
    for name in IDS:
        # The platform sets fs_group to run_as_group, so a 0 is only reported for the field that the user set.
        setting = draft.resolution.setting(name)
        if setting and setting.value == 0 and setting.source.layer is not Layer.ENFORCED and not switch.value:
            message = f"0 is root; {_describe_denial(switch)}"
            hint = "use another ID such as 1000, or ask an administrator to set allow_root to true"
            yield Violation(name, "allow_root", message, hint, switch.source)


def check_gpu_memory_limits(draft: Draft) -> Iterator[Violation]:
    """A GPU memory limit above the request must be allowed, because the additional memory is not reserved."""
    switch = draft.switches["gpu_memory_limits"]
    request, limit = draft.gpu_memory, draft.gpu_memory_limit
    if limit is not None and limit != request and not switch.value:
        message = f"limit {limit} exceeds the request {request}; {_describe_denial(switch)}"
        hint = f"set it to {request}, or ask an administrator to set gpu_memory_limits to true"
        yield Violation("resources.gpu.memory.limit", "gpu_memory_limits", message, hint, switch.source)


def _describe_denial(switch: SourcedValue) -> str:
    """Says which policy denies a feature, or that no policy allows it."""
    return "no policy allows it" if switch.source.layer is Layer.PLATFORM else f"the {switch.source} does not allow it"


def _full_image(image: str) -> str:
    """The image with its registry; Docker Hub is the default."""
    first, slash, _ = image.partition("/")
    # Docker's rule: the part before the first slash is a registry only if it looks like a host.
    if slash and ("." in first or ":" in first or first == "localhost"):
        return image
    return f"docker.io/{image}" if slash else f"docker.io/library/{image}"


def _is_inside(image: str, registry: str) -> bool:
    # The slash is included, so that ghcr.io/team does not allow ghcr.io/teamwork.
    return image.startswith(registry.removesuffix("/") + "/")
