"""Compute requirements: resources, volumes, variables, placement and other settings of a run's pods."""

import posixpath
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    Field,
    PlainSerializer,
    PlainValidator,
    ValidationError,
    WithJsonSchema,
    field_serializer,
    field_validator,
    model_validator,
)
from pydantic.alias_generators import to_snake

from fairlead.model.names import (
    DNS_SUBDOMAIN,
    LABEL_KEY,
    LABEL_VALUE,
    VARIABLE,
    DnsLabel,
    DnsSubdomain,
    ExtendedResourceName,
    LabelValue,
    ObjectName,
    VariableName,
)
from fairlead.model.parsing import (
    Flag,
    Mistake,
    StrictModel,
    collect_mistakes,
    field_error,
    field_errors,
    mistakes_of_validation,
    parse_text,
    printable,
    raise_mistakes,
    short_repr,
    suggest_names,
)
from fairlead.model.placement import Affinity, Toleration
from fairlead.model.quantities import (
    Bytes,
    BytesLimit,
    Count,
    Cpu,
    CpuLimit,
    DeviceMemory,
    Id,
    Percent,
    Quantity,
    Size,
    Unlimited,
    parse_bytes,
    parse_integer,
    positive,
)

MAX_DEVICES = 1024
WHOLE_DEVICE = Percent(100)

SCALAR: Mapping[str, Any] = {"type": ["string", "number"]}

RESERVED = "fairlead-"  # the prefix of volumes that the platform adds to a pod

VolumeType = Literal["persistent_volume_claim", "shared_volume", "config_map", "secret", "empty_dir", "ephemeral"]

# The spec fields that each type allows.
SPEC_FIELDS: Mapping[str, tuple[str, ...]] = {
    "persistent_volume_claim": ("size", "storage_class"),
    "ephemeral": ("size", "storage_class"),
    "empty_dir": ("size", "medium"),
    "shared_volume": ("claim_name",),
    "config_map": ("name",),
    "secret": ("name",),
}
SIZED = ("persistent_volume_claim", "ephemeral")
NAMED = ("config_map", "secret")
NAMED_BY: Mapping[str, str] = {"shared_volume": "claim_name", "config_map": "name", "secret": "name"}
EXISTING = ("shared_volume", "config_map")  # allowed only if the existing_volumes switch is `allow`
PROCESS_FOLDERS = ("/proc", "/dev/fd")  # differ per process, and container runtimes refuse to mount there

MAX_VARIABLE_BYTES = 128 * 1024 - 1  # MAX_ARG_STRLEN on Linux, for one argument or variable


def parse_devices(value: Any) -> int:
    """Parse a number of GPUs. The hint explains how to request a fraction of a GPU or a GPU type."""
    # JSON does not distinguish 1.0 from 1.
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value) if isinstance(value, str | float) else ""
    if re.fullmatch(r"[0-9]{0,9}\.[0-9]{1,9}|[0-9]{1,9}[%m]", text, re.ASCII):
        # Users may write half a GPU as 0.5, 50% or 500m.
        fraction = float(text.rstrip("%m")) / {"%": 100, "m": 1000}.get(text[-1], 1)
        hint = f"to request part of a GPU, use gpu: {{devices: 1, memory: {max(1, round(fraction * 100))}%}}"
        if fraction >= 1:
            hint = f"use gpu: {int(fraction)} or gpu: {int(fraction) + 1}"
        raise field_error("whole_number", f"must be a whole number of GPUs, found {short_repr(value)}", hint)
    hint = "use a number of GPUs, for example 1"
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9.-]*", text, re.ASCII):
        hint = f"to request a GPU type, use gpu: {{devices: 1, type: {text}}}"
    return parse_integer(value, maximum=MAX_DEVICES, hint=hint)


def parse_mig(value: Any) -> str:
    """Parse the name of an NVIDIA MIG profile."""
    if not isinstance(value, str) or not re.fullmatch(r"[1-7]g\.[1-9][0-9]{0,2}gb(\+me)?", value, re.ASCII):
        hint = "use a profile such as 1g.5gb or 3g.20gb"
        raise field_error("mig_profile", f"invalid MIG profile {short_repr(value)}", hint)
    return value


def parse_shm(value: Any) -> bool | Quantity:
    """Parse shared memory: true for up to the memory limit, false for the runtime's default (64 MB), or a size."""
    if isinstance(value, bool):
        return value
    # Text such as "yes" or "on" gets a message that mentions true and false.
    if isinstance(value, str) and not value[:1].isdigit():
        raise field_error(
            "quantity", f"must be true, false or a size, found {short_repr(value)}", "use a size such as 8Gi"
        )
    return positive(parse_bytes, "use a size such as 8Gi, or false")(value)


SharedMemory = Annotated[
    bool | Quantity,
    PlainValidator(parse_shm),
    PlainSerializer(lambda value: value if isinstance(value, bool) else str(value)),
    WithJsonSchema({"type": ["boolean", "string", "integer"], "examples": [True, "8Gi"]}),
]


class Amount(StrictModel):
    """A request and a limit. A scalar sets only the request."""

    SHORT_FORM: ClassVar[Any] = SCALAR

    requests: Quantity | None = None
    limits: Quantity | Unlimited | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_scalar(cls, data: Any) -> Any:
        return {"requests": data} if isinstance(data, str | int | float) else data

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        if self.requests is not None and isinstance(self.limits, Quantity) and self.limits < self.requests:
            message = f"limit {self.limits} is less than the request {self.requests}"
            raise field_error("limit_under_request", message, f"set limits to {self.requests} or more", path="limits")
        return self


class CpuAmount(Amount):
    """CPU, in cores."""

    requests: Cpu | None = None
    limits: CpuLimit | None = None


class BytesAmount(Amount):
    """Memory or ephemeral disk, in bytes."""

    requests: Bytes | None = None
    limits: BytesLimit | None = None


class GpuMemoryAmount(StrictModel):
    """The memory of one GPU. A scalar sets only the request."""

    FIELD_ALIASES: ClassVar[Mapping[str, str]] = {"requests": "request", "limits": "limit"}
    SHORT_FORM: ClassVar[Any] = SCALAR

    request: DeviceMemory | None = None
    limit: DeviceMemory | None = None

    @model_validator(mode="before")
    @classmethod
    def _read_scalar(cls, data: Any) -> Any:
        return {"request": data} if isinstance(data, str | int | float) else data

    @model_validator(mode="after")
    def _check_order(self) -> Self:
        request, limit = self.request, self.limit
        if request is None and limit is None:
            hint = "use a percentage such as 50% or an amount such as 10GB"
            raise field_error("required", "has neither a request nor a limit", hint)
        if request is None or limit is None:
            return self
        # Which of the two is larger depends on the GPU.
        if isinstance(request, Percent) != isinstance(limit, Percent):
            message = f"request {request} and limit {limit} have different units"
            raise field_error("unit", message, "use percentages for both, or amounts for both", path="limit")
        if limit < request:  # type: ignore[operator]  # both have the same type here
            message = f"limit {limit} is less than the request {request}"
            raise field_error("limit_under_request", message, f"set the limit to {request} or more", path="limit")
        return self


class Gpu(StrictModel):
    """A pod's GPUs: whole devices, or part of one device (a share of its memory or a MIG slice)."""

    SHORT_FORM: ClassVar[Any] = SCALAR

    devices: Annotated[int, PlainValidator(parse_devices), WithJsonSchema({"type": ["integer", "string"]})] | None = (
        None
    )
    type: LabelValue | None = None
    memory: GpuMemoryAmount | None = None
    mig: (
        Annotated[str, PlainValidator(parse_mig), WithJsonSchema({"type": "string", "examples": ["1g.5gb"]})] | None
    ) = None

    @model_validator(mode="before")
    @classmethod
    def _read_older_forms(cls, data: Any) -> Any:
        if isinstance(data, str | int | float):
            return {"devices": data}
        if not isinstance(data, Mapping) or not {"requests", "limits"} & data.keys():
            return data
        both = {name: parse_devices(data[name]) for name in ("requests", "limits") if data.get(name) is not None}
        if "devices" in data:
            raise field_error("duplicate", "sets devices together with requests or limits", "keep only devices")
        # Kubernetes requires equal requests and limits for extended resources such as GPUs.
        if len(set(both.values())) > 1:
            message = f"requests {both['requests']} and limits {both['limits']} differ; GPUs cannot be overcommitted"
            raise field_error("gpu_requests_differ", message, f"use gpu: {both['requests']}")
        rest = {name: value for name, value in data.items() if name not in ("requests", "limits")}
        return rest | {"devices": next(iter(both.values()))} if both else rest

    @model_validator(mode="after")
    def _check_sharing(self) -> Self:
        if self.memory is not None and self.mig is not None:
            message = f"MIG profile {self.mig} and GPU memory cannot be combined"
            raise field_error("gpu_share_and_mig", message, "remove mig or memory", path="mig")
        part = "memory" if self.memory is not None else "mig" if self.mig is not None else None
        if self.devices == 0 and (part or self.type):
            message = "must not be set for 0 devices"
            raise field_error(
                "gpu_contradiction", message, "set devices to 1, or remove this field", path=part or "type"
            )
        # 100% of the memory means a whole GPU, which needs no GPU sharing.
        is_whole = self.memory is not None and (self.memory.request or self.memory.limit) == WHOLE_DEVICE
        if part and not is_whole and self.devices not in (None, 1):
            message = f"part of a GPU requires exactly 1 device, found {self.devices}"
            hint = f"set devices to 1, or remove {part} to get whole GPUs"
            raise field_error("gpu_share_of_many", message, hint, path=part)
        # A type, memory or a MIG profile without `devices` means one GPU. If none of these is set, other layers decide.
        devices = 1 if self.devices is None and (part or self.type) else self.devices
        return self.model_copy(update={"devices": devices, "memory": None if is_whole else self.memory})


class Resources(StrictModel):
    """The resources of each pod."""

    cpu: CpuAmount | None = None
    mem: BytesAmount | None = None
    disk: BytesAmount | None = None
    gpu: Gpu | None = None
    shm: SharedMemory | None = None
    extended: Mapping[ExtendedResourceName, Count] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _read_list(cls, data: Any) -> Any:
        """Read the oldest form: [{resource_type: cpu, requests: 1, limits: 2}]."""
        if not isinstance(data, list | tuple):
            return data
        named: dict[str, Any] = {}
        mistakes: list[Mistake] = []
        for index, entry in enumerate(data):
            entry = {to_snake(str(name)): value for name, value in entry.items()} if isinstance(entry, Mapping) else {}
            kind = entry.get("resource_type")
            path = f"{index}.resource_type"
            if not isinstance(kind, str):
                message = f"must have a resource_type, found {short_repr(data[index])}"
                mistakes.append(Mistake(str(index), "required", message, "use a mapping: {cpu: 8, mem: 32Gi}"))
            elif kind in named:
                mistakes.append(Mistake(path, "duplicate", f"{short_repr(kind)} is set twice", "remove one of them"))
            elif kind not in cls.model_fields:
                hint = suggest_names(kind, cls.model_fields)
                mistakes.append(Mistake(path, "unknown_field", f"unknown resource {short_repr(kind)}", hint))
            else:
                named[kind] = {name: value for name, value in entry.items() if name != "resource_type"}
        # Also validate the readable entries, so that all mistakes are reported at once.
        if mistakes:
            try:
                cls.model_validate(named)
            except ValidationError as error:
                mistakes += mistakes_of_validation(error, cls)
            raise field_errors(mistakes)
        return named


def parse_mount_path(value: Any) -> str:
    """Parse an absolute path inside the container."""
    if not isinstance(value, str) or not value.startswith("/"):
        raise field_error("absolute", f"must be an absolute path, found {short_repr(value)}", "start it with /")
    # Kubernetes rejects ':' and '..' in mount paths. 4096 is PATH_MAX on Linux.
    if ":" in value or not value.isprintable() or ".." in value.split("/") or len(value) > 4096:
        raise field_error(
            "path", f"must be a path without ':' or '..', found {short_repr(value)}", "use a path such as /data"
        )
    path = posixpath.normpath(value)
    if path in ("/", "//"):
        raise field_error("path", "must not be the root folder", "use a folder such as /data")
    # normpath keeps two leading slashes, because POSIX allows them to have a special meaning.
    path = path.replace("//", "/")
    if any(path == folder or path.startswith(f"{folder}/") for folder in PROCESS_FOLDERS):
        raise field_error("path", f"volumes cannot be mounted at {short_repr(path)}", "use a folder such as /data")
    return path


def parse_sub_path(value: Any) -> str:
    """Parse a path inside a volume."""
    text = parse_text(value)
    # The local executor resolves the path in a host folder, so it must not lead out of the volume.
    if not text or not text.isprintable() or text.startswith("/") or ".." in text.split("/"):
        raise field_error(
            "path", f"must be a path inside the volume, found {short_repr(text)}", "use a path such as models/base"
        )
    return text


class VolumeSpec(StrictModel):
    """The type-specific fields of a volume."""

    FIELD_ALIASES: ClassVar[Mapping[str, str]] = {"sizeLimit": "size", "size_limit": "size"}

    size: Size | None = None
    storage_class: DnsSubdomain | None = None
    medium: Literal["Memory"] | None = None
    claim_name: DnsSubdomain | None = None
    name: str | None = None


class Volume(StrictModel):
    """A volume and its mount point in the container."""

    name: DnsLabel
    volume_type: VolumeType
    mount_path: Annotated[str, PlainValidator(parse_mount_path), WithJsonSchema({"type": "string", "pattern": "^/"})]
    read_only: Flag = False
    sub_path: Annotated[str, PlainValidator(parse_sub_path), WithJsonSchema({"type": "string"})] | None = None
    spec: VolumeSpec = Field(default_factory=VolumeSpec)

    @model_validator(mode="after")
    def _check(self) -> Self:
        raise_mistakes(self._find_mistakes())
        return self

    def _find_mistakes(self) -> Iterator[Mistake]:
        for field in VolumeSpec.model_fields:
            if getattr(self.spec, field) is not None and field not in SPEC_FIELDS[self.volume_type]:
                message = f"is not a field of {self.volume_type}"
                yield Mistake(f"spec.{field}", "unknown_field", message, self._suggest(field))
        if self.volume_type in SIZED and self.spec.size is None:
            yield Mistake("spec.size", "required", "is missing", "set the size to reserve, for example 10Gi")
        # `secret` refers to a project secret, named like a variable; `config_map` refers to a Kubernetes object.
        name_format = VARIABLE if self.volume_type == "secret" else DNS_SUBDOMAIN
        name = self.spec.name or self.name
        if self.volume_type in NAMED and not name_format.matches(name):
            message = f"invalid {self.volume_type} name: {short_repr(name)}"
            yield Mistake("spec.name", "name", message, f"use {name_format.description}")
        if self.name.startswith(RESERVED):
            message = f"{self.name} starts with {RESERVED}, which is reserved for the platform"
            yield Mistake("name", "reserved", message, "rename it")

    def to_data(self) -> dict[str, Any]:
        """The volume as users write it, without unset fields."""
        data = self.model_dump(exclude_none=True, exclude_unset=True)
        return {name: value for name, value in data.items() if value != {}}

    def _suggest(self, field: str) -> str:
        if field == "claim_name" and self.volume_type == "persistent_volume_claim":
            return "set volume_type to shared_volume to use an existing volume"
        return f"use {', '.join(SPEC_FIELDS[self.volume_type])}"


def parse_selector(data: Any) -> Mapping[str, str]:
    """Parse node labels from a mapping or a list of {key, value} entries."""
    return _read_pairs(data, "key", {"key": LABEL_KEY.parse, "value": LABEL_VALUE.parse})


def parse_envs(data: Any) -> Mapping[str, str]:
    """Parse environment variables from a mapping or a list of {name, value} entries."""
    return _read_pairs(data, "name", {"name": VARIABLE.parse, "value": parse_variable})


def parse_volumes(data: Any) -> Mapping[str, Volume]:
    """Parse volumes by name, from a list or from a mapping whose entries may omit the name."""
    volumes: dict[str, Volume] = {}
    mistakes: list[Mistake] = []
    for path, entry in _read_entries(data, "name", _join_name):
        try:
            volume = Volume.model_validate(entry)
        except ValidationError as error:
            mistakes += [mistake.under(path) for mistake in mistakes_of_validation(error, Volume)]
            continue
        if isinstance(data, Mapping) and volume.name != path:
            message = f"{volume.name} differs from the key {path}"
            mistakes.append(Mistake(f"{path}.name", "contradiction", message, "remove the name"))
        elif volume.name in volumes:
            mistakes.append(_duplicate(f"{path}.name", volume.name))
        volumes[volume.name] = volume
    raise_mistakes(mistakes)
    return volumes


def _pairs(key: str) -> WithJsonSchema:
    entry = {
        "type": "object",
        "required": [key, "value"],
        "properties": {key: {"type": "string"}, "value": {"type": "string"}},
    }
    by_name = {"type": "object", "additionalProperties": {"type": "string"}}
    return WithJsonSchema({"anyOf": [by_name, {"type": "array", "items": entry}]})


_VOLUMES = WithJsonSchema(
    {
        "description": "volumes in a list, or by name",
        "anyOf": [
            {"type": "array", "items": {"$ref": "#/components/schemas/Volume"}},  # the API schema defines it
            {"type": "object", "additionalProperties": {"type": "object"}},
        ],
    }
)


class Requirements(StrictModel):
    """A run's requirements. Every field is optional, because other layers may set missing fields."""

    resources: Resources = Field(default_factory=Resources)
    node_selector: Annotated[Mapping[str, str], PlainValidator(parse_selector), _pairs("key")] = Field(
        default_factory=dict
    )
    tolerations: tuple[Toleration, ...] = ()
    affinity: Affinity | None = None
    volumes: Annotated[Mapping[str, Volume], PlainValidator(parse_volumes), _VOLUMES] = Field(default_factory=dict)
    secrets: tuple[VariableName, ...] = ()
    envs: Annotated[Mapping[str, str], PlainValidator(parse_envs), _pairs("name")] = Field(default_factory=dict)
    fs_group: Id | None = None
    run_as_user: Id | None = None
    run_as_group: Id | None = None
    runtime_class: DnsSubdomain | None = None
    priority_class: DnsSubdomain | None = None
    profile: ObjectName | None = None
    template: ObjectName | None = None

    @field_validator("tolerations", "secrets", mode="before")
    @classmethod
    def _read_list(cls, data: Any) -> Any:
        if not isinstance(data, list | tuple):
            raise field_error("list", f"must be a list, found {short_repr(data)}", "put it in [ ]")
        return tuple(data)

    @model_validator(mode="after")
    def _check_mounts(self) -> Self:
        # This checks only these requirements. `planning.checks` compares the volumes of all layers.
        mounted: dict[str, str] = {}
        mistakes: list[Mistake] = []
        for name, volume in self.volumes.items():
            other = mounted.setdefault(volume.mount_path, name)
            if other != name:
                path = f"volumes.{name}.mount_path"
                message = f"volumes {other} and {name} are both mounted at {volume.mount_path}"
                mistakes.append(Mistake(path, "mount_path", message, "mount one of them at another path"))
        raise_mistakes(mistakes)
        return self

    @field_serializer("node_selector")
    def _print_selectors(self, selectors: Mapping[str, str]) -> list[dict[str, str]]:
        return [{"key": key, "value": value} for key, value in selectors.items()]

    @field_serializer("envs")
    def _print_envs(self, envs: Mapping[str, str]) -> list[dict[str, str]]:
        return [{"name": name, "value": value} for name, value in envs.items()]

    @field_serializer("volumes")
    def _print_volumes(self, volumes: Mapping[str, Volume]) -> list[dict[str, Any]]:
        return [volume.to_data() for volume in volumes.values()]

    @field_serializer("tolerations", "affinity")
    def _print_kubernetes(self, value: Any) -> Any:
        return [part.manifest for part in value] if isinstance(value, tuple) else value and value.manifest

    def to_data(self) -> dict[str, Any]:
        """The requirements as users write them, in canonical spelling and without unset fields."""
        data = self.model_dump(exclude_none=True)
        # exclude_none leaves {} for a resource that has neither a request nor a limit.
        data["resources"] = {name: value for name, value in data["resources"].items() if value != {}}
        return {name: value for name, value in data.items() if value not in ({}, [], ())}


def parse_variable(value: Any) -> str:
    """Parse text that can be passed to a process as an argument or variable."""
    text = parse_text(value)
    # JSON may contain lone surrogates, which need `surrogatepass` to be encoded. The next check rejects them.
    if len(text.encode("utf-8", "surrogatepass")) > MAX_VARIABLE_BYTES:
        message = f"has {len(text)} characters; at most {MAX_VARIABLE_BYTES} bytes can be passed to a process"
        raise field_error("too_long", message, "use a volume, or a file in the function's code")
    # isascii() is much faster than the loop and is true for nearly all values.
    if not text.isascii() and any("\ud800" <= letter <= "\udfff" for letter in text):
        raise field_error("text", f"invalid Unicode text {short_repr(text)}", "remove the lone surrogates")
    # The kernel cuts off arguments and variables at the first NUL.
    if "\0" in text:
        raise field_error("text", f"must not contain a NUL character, found {short_repr(text)}", "remove it")
    return text


def _read_pairs(data: Any, key: str, checks: Mapping[str, Callable[[Any], Any]]) -> Mapping[str, str]:
    """Read key-value pairs from a mapping or a list of entries. Collects all mistakes."""
    pairs: dict[str, str] = {}
    mistakes: list[Mistake] = []
    for path, entry in _read_entries(data, key, lambda name, value: {key: name, "value": value}):
        entry_mistakes = list(_check_pair(entry, checks))
        if not entry_mistakes and entry[key] in pairs:
            entry_mistakes = [_duplicate(key, entry[key])]
        if not entry_mistakes:
            pairs[entry[key]] = entry["value"]
        if isinstance(data, Mapping):  # the path of both key and value is the key
            entry_mistakes = [mistake._replace(path="") for mistake in entry_mistakes]
        mistakes += [mistake.under(path) for mistake in entry_mistakes]
    raise_mistakes(mistakes)
    return pairs


def _check_pair(entry: Any, checks: Mapping[str, Callable[[Any], Any]]) -> Iterator[Mistake]:
    expected = " and ".join(checks)
    if not isinstance(entry, Mapping):
        hint = f"use {{{', '.join(f'{name}: ...' for name in checks)}}}"
        yield Mistake("", "mapping", f"must be a mapping with {expected}, found {short_repr(entry)}", hint)
        return
    for name, check in checks.items():
        if entry.get(name) is None:
            hint = 'use "" for an empty value' if name == "value" else f"set {name}"
            yield Mistake(name, "required", "is missing", hint)
        else:
            yield from collect_mistakes(name, check, entry[name])
    for name in entry:
        if name not in checks:
            hint = f"known fields: {', '.join(checks)}"
            yield Mistake(str(name), "unknown_field", f"unknown field {short_repr(name)}", hint)


def _read_entries(data: Any, key: str, join: Callable[[Any, Any], Any]) -> Iterator[tuple[str, Any]]:
    """The entries of a list or mapping, each with its path. `join` adds a mapping key to its entry."""
    if isinstance(data, Mapping):
        yield from ((printable(name), join(name, entry)) for name, entry in data.items())
    elif isinstance(data, list | tuple):
        for index, entry in enumerate(data):
            name = entry.get(key) if isinstance(entry, Mapping) else None
            # A name identifies an entry better than its position, which changes when entries are added.
            yield printable(name) if isinstance(name, str) and name else str(index), entry
    else:
        hint = f"use a list of entries with a {key}"
        raise field_error("list", f"must be a list or a mapping, found {short_repr(data)}", hint)


def _join_name(name: Any, entry: Any) -> Any:
    return {"name": name, **entry} if isinstance(entry, Mapping) else entry


def _duplicate(path: str, name: str) -> Mistake:
    return Mistake(path, "duplicate", f"{short_repr(name)} is set twice", "remove one of them")


Variable = Annotated[str, PlainValidator(parse_variable), WithJsonSchema({"type": "string"})]
