"""Requested resources: CPU, memory, disk, GPUs, shared memory and extended resources."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, PlainSerializer, PlainValidator, ValidationError, WithJsonSchema, model_validator
from pydantic.alias_generators import to_snake

from fairlead.model.names import ExtendedResourceName, LabelValue
from fairlead.model.numbers import (
    Bytes,
    BytesLimit,
    Count,
    Cpu,
    CpuLimit,
    DeviceMemory,
    parse_bytes,
    parse_integer,
    positive,
)
from fairlead.model.parsing import (
    Mistake,
    StrictModel,
    field_error,
    field_errors,
    mistakes_of_validation,
    short_repr,
    suggest_names,
)
from fairlead.model.quantities import Percent, Quantity, Unlimited

MAX_DEVICES = 1024
WHOLE_DEVICE = Percent(100)


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
SCALAR: Mapping[str, Any] = {"type": ["string", "number"]}


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
