"""Checks resolved settings against policy rules and switches."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from fairlead.model import fields
from fairlead.model.plans import Layer, Setting, SourcedValue, Violation, format_value
from fairlead.model.quantities import UNLIMITED
from fairlead.model.resources import EXISTING, SIZED, WHOLE_DEVICE
from fairlead.resolution.drafts import Draft
from fairlead.resolution.layers import LayerValues
from fairlead.resolution.policy_merging import EffectiveRule

SET_BY_COMPUTE_RESOURCE = "choose another compute resource, or ask an administrator"
# A missing limit means unlimited, so it violates every maximum.
LIMIT_PATHS = ("resources.cpu.limits", "resources.mem.limits", "resources.disk.limits")

IDS = ("run_as_user", "run_as_group", "fs_group")


def check_policies(draft: Draft, layers: Sequence[LayerValues]) -> Iterator[Violation]:
    """All violations of switches and rules."""
    for check in SWITCH_CHECKS:
        yield from check(draft)
    yield from _check_rules(draft, layers)


def _check_rules(draft: Draft, layers: Sequence[LayerValues]) -> Iterator[Violation]:
    """All violated rules. `locked` applies to the values of templates and users."""
    # A setting without a value was removed by a stronger layer, so it does not satisfy `required`.
    settings = {setting.path: setting for setting in draft.settings.values() if setting.value is not None}
    for path, rule in draft.snapshot.rules.items():
        if rule.required or rule.locked:
            yield from _check_flags(path, rule, settings, layers)
        for setting_path in _matching_paths(path, settings):
            value = _effective_value(setting_path, settings)
            if violations := list(_check_bounds(setting_path, value, rule)):
                # `settings` leaves out limits that a layer removed, but the message names that layer.
                owner = draft.settings.get(setting_path)
                description = _describe_value(value, owner)
                owned = owner is not None and owner.source.layer is Layer.COMPUTE_RESOURCE
                for violation in violations:
                    hint = SET_BY_COMPUTE_RESOURCE if owned else violation.hint
                    yield replace(violation, message=f"{description}; {violation.message}", hint=hint)


def _check_flags(
    path: str, rule: EffectiveRule, settings: Mapping[str, Setting], layers: Sequence[LayerValues]
) -> Iterator[Violation]:
    for required_path in _required_paths(path, settings) if rule.required else ():
        if required_path not in settings and not any(_is_at(required_path, setting) for setting in settings):
            message = f"is required by the {rule.required}"
            yield Violation(
                required_path, "required", message, f"set {fields.value_path(required_path)}", rule.required
            )
    if rule.locked:
        # This checks layers, not the resolution: setting a locked value is wrong even if another layer overrides it.
        for requested in _requested_values(path, layers):
            message = f"locked by the {rule.locked}; the {requested.source} sets {format_value(requested.value)}"
            yield Violation(requested.path, "locked", message, "remove it", rule.locked)


def _required_paths(path: str, settings: Mapping[str, Setting]) -> list[str]:
    """The paths that must have a value. A `*` stands for each existing name."""
    section, star, rest = path.partition("*")
    if not star:
        return [path]
    names = (setting.removeprefix(section).partition(".")[0] for setting in settings if setting.startswith(section))
    # `volumes.*` requires nothing: each existing volume satisfies it.
    return [f"{section}{name}{rest}" for name in dict.fromkeys(names)] if rest else []


def _check_bounds(path: str, value: Any, rule: EffectiveRule) -> Iterator[Violation]:
    """The bounds and options that a value violates. Each message follows a description of the value."""
    unlimited = value is UNLIMITED or (value is None and path in LIMIT_PATHS)
    for bound in rule.max.values():
        if unlimited or (_is_comparable(value, bound) and value > bound.value):
            maximum = format_value(bound.value)
            hint = f"set {path} to {maximum} or less" if maximum != "0" else f"remove {path}"
            yield Violation(path, "max", f"the {bound.source} allows at most {maximum}", hint, bound.source)
    for bound in rule.min.values():
        if _is_comparable(value, bound) and value < bound.value:
            minimum = format_value(bound.value)
            hint = f"set {path} to {minimum} or more"
            yield Violation(path, "min", f"the {bound.source} requires at least {minimum}", hint, bound.source)
    # Values in other units cannot be compared. Accepting them would let 100% of a GPU pass a maximum of 20Gi.
    for bound in (*rule.max.values(), *rule.min.values()) if value is not None and value is not UNLIMITED else ():
        if not _is_comparable(value, bound):
            message = f"the {bound.source} has a bound of {bound.value}, and the units cannot be compared"
            yield Violation(path, "unit", message, f"use the same unit as {bound.value}", bound.source)
    yield from _check_options(path, value, rule.options)


def _check_options(path: str, value: Any, options: Sequence[SourcedValue]) -> Iterator[Violation]:
    """A value must be an option in every scope. The hint lists the options that all scopes have in common."""
    violated = [bound for bound in options if value is not None and value not in bound.value]
    if not violated:
        return
    allowed = "; ".join(f"the {bound.source} allows {', '.join(map(format_value, bound.value))}" for bound in violated)
    common = [format_value(option) for option in options[0].value if all(option in bound.value for bound in options)]
    hint = f"set it to {' or '.join(common)}" if common else "no value is allowed in all scopes; ask an administrator"
    yield Violation(path, "options", allowed, hint, violated[0].source)


def _is_comparable(value: Any, bound: SourcedValue) -> bool:
    """Whether both have the same unit: percentages and amounts of GPU memory cannot be compared."""
    return type(value) is type(bound.value)


def _matching_paths(path: str, settings: Mapping[str, Setting]) -> list[str]:
    if "*" not in path:
        return [path]
    # The prefix is compared first, because a plan has about sixty settings, and regular expressions are slower.
    pattern, prefix = fields.pattern_of(path), path.partition("*")[0]
    return [name for name in settings if name.startswith(prefix) and pattern.fullmatch(name)]


def _describe_value(value: Any, setting: Setting | None) -> str:
    """The value, with its source unless the user set it."""
    if value is None or value is UNLIMITED:
        source = f" (from the {setting.source})" if setting and setting.source.layer is not Layer.USER else ""
        return ("has no limit" if value is None else "is unlimited") + source
    if setting is None or setting.source.layer is Layer.USER:
        return f"{format_value(value)} requested" + (f" ({setting.reason})" if setting and setting.reason else "")
    return f"{format_value(value)} (from the {setting.source})"


def _effective_value(path: str, settings: Mapping[str, Setting]) -> Any:
    """The value at a path. Shared memory without a size is limited by the memory limit."""
    value = settings[path].value if path in settings else None
    # `shm: true` sets no size: /dev/shm can then grow up to the memory limit.
    if path != "resources.shm" or not isinstance(value, bool):
        return value
    limit = settings.get("resources.mem.limits")
    return (limit.value if limit else UNLIMITED) if value else None


def _requested_values(path: str, layers: Sequence[LayerValues]) -> Iterator[Setting]:
    for layer in layers:
        # Policy defaults and compute resources may set locked values: that is how a locked path gets a value.
        if layer.source.layer in (Layer.USER, Layer.TEMPLATE):
            for _section, _name, settings in layer.groups:
                for setting in settings.values():
                    # A whole device is the default, so users did not set it explicitly.
                    if setting.value is not None and setting.value != WHOLE_DEVICE and _is_at(path, setting.path):
                        yield setting


def _is_at(path: str, setting_path: str) -> bool:
    if "*" in path:
        # Not fullmatch, because `volumes.*` includes volumes.data.spec.size.
        return fields.pattern_of(path).match(setting_path) is not None
    return setting_path == path or setting_path.startswith(path + ".")


def check_existing_volumes(draft: Draft) -> Iterator[Violation]:
    """Existing volumes must be allowed."""
    switch = draft.switches["existing_volumes"]
    if switch.value == "allow":
        return
    for name, parts in draft.volumes.items():
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
    for name, parts in draft.volumes.items():
        # A claim without a class would get the cluster's default class, which may not be allowed.
        requested = parts.get("spec.storage_class")
        if parts["volume_type"] in SIZED and requested not in switch.value:
            description = f"storage class {requested} requested" if requested else "has no storage class"
            message = f"{description}; the {switch.source} allows {allowed}"
            hint = f"set it to one of {allowed}" if switch.value else "use a volume of type empty_dir"
            yield Violation(f"volumes.{name}.spec.storage_class", "storage_classes", message, hint, switch.source)


def check_registries(draft: Draft) -> Iterator[Violation]:
    """Images must come from an allowed registry."""
    switch, image = draft.switches["registries"], draft.values.get("function.image")
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
    if switch.value == "required" and draft.values.get("profile") is None:
        message = f"no compute resource is set; the {switch.source} requires one"
        known = ", ".join(sorted(draft.snapshot.compute_resources))
        hint = f"choose one: {known}" if known else "ask an administrator to create one; there are none yet"
        yield Violation("profile", "compute_resource", message, hint, switch.source)


def check_root(draft: Draft) -> Iterator[Violation]:
    """Running as root must be allowed."""
    switch = draft.switches["allow_root"]
    for name in IDS:
        # The platform sets fs_group to run_as_group, so a 0 is only reported for the field that the user set.
        setting = draft.settings.get(name)
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


SWITCH_CHECKS = (
    check_existing_volumes,
    check_storage_classes,
    check_registries,
    check_compute_resource,
    check_root,
    check_gpu_memory_limits,
)
