"""What of a machine is asked for: cpu, memory, disk, GPUs, shared memory and extended resources."""

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
    parse_whole,
    positive,
)
from fairlead.model.parsing import Mistake, Strict, mistakes_in, nearest, several_wrong, show, wrong
from fairlead.model.quantities import Percent, Quantity, Unlimited

MOST_DEVICES = 1024
WHOLE_DEVICE = Percent(100)


def parse_devices(value: Any) -> int:
    """A number of whole GPUs; whoever writes a fraction or a type learns how those are asked for."""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value) if isinstance(value, str | float) else ""
    if re.fullmatch(r"[0-9]{0,9}\.[0-9]{1,9}|[0-9]{1,9}[%m]", text, re.ASCII):
        share = float(text.rstrip("%m")) / {"%": 100, "m": 1000}.get(text[-1], 1)
        hint = f"for a share of one GPU's memory write gpu: {{devices: 1, memory: {max(1, round(share * 100))}%}}"
        if share >= 1:
            hint = f"write gpu: {int(share)} or gpu: {int(share) + 1}"
        raise wrong("whole_number", f"GPUs are whole devices, found {show(value)}", hint)
    hint = "write a number of devices, such as 1"
    if re.fullmatch(r"[A-Za-z][A-Za-z0-9.-]*", text, re.ASCII):
        hint = f"for a type of GPU write gpu: {{devices: 1, type: {text}}}"
    return parse_whole(value, most=MOST_DEVICES, hint=hint)


def parse_mig(value: Any) -> str:
    """A MIG profile, as NVIDIA names them."""
    if not isinstance(value, str) or not re.fullmatch(r"[1-7]g\.[1-9][0-9]{0,2}gb(\+me)?", value, re.ASCII):
        raise wrong("mig_profile", f"is no MIG profile: {show(value)}", "write one such as 1g.5gb or 3g.20gb")
    return value


def parse_shm(value: Any) -> bool | Quantity:
    """Shared memory: true for as much as memory allows, false for the default, or a size."""
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and not value[:1].isdigit():
        raise wrong("quantity", f"must be true, false or a size, found {show(value)}", "write a size such as 8Gi")
    return positive(parse_bytes, "write a size such as 8Gi, or false")(value)


SharedMemory = Annotated[
    bool | Quantity,
    PlainValidator(parse_shm),
    PlainSerializer(lambda value: value if isinstance(value, bool) else str(value)),
    WithJsonSchema({"type": ["boolean", "string", "integer"], "examples": [True, "8Gi"]}),
]
SCALAR: Mapping[str, Any] = {"type": ["string", "number"]}


class Amount(Strict):
    """A request and a limit. Written as a scalar, it is the request and says nothing of a limit."""

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
            message = f"limit {self.limits} is under the request {self.requests}"
            raise wrong("limit_under_request", message, f"set limits to {self.requests} or more", at="limits")
        return self


class CpuAmount(Amount):
    """CPU, in cores."""

    requests: Cpu | None = None
    limits: CpuLimit | None = None


class BytesAmount(Amount):
    """Memory or ephemeral disk, in bytes."""

    requests: Bytes | None = None
    limits: BytesLimit | None = None


class GpuMemoryAmount(Strict):
    """Memory of one GPU device. Written as a scalar, it is the request."""

    SPELLINGS: ClassVar[Mapping[str, str]] = {"requests": "request", "limits": "limit"}
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
            hint = "write a share such as 50% or an amount such as 10GB"
            raise wrong("required", "says neither a request nor a limit", hint)
        if request is None or limit is None:
            return self
        if isinstance(request, Percent) != isinstance(limit, Percent):
            message = f"request {request} and limit {limit} are in different kinds of unit"
            raise wrong("unit", message, "write both as a share, or both as an amount", at="limit")
        if limit < request:  # type: ignore[operator]  # both are of one kind here
            message = f"limit {limit} is under the request {request}"
            raise wrong("limit_under_request", message, f"set the limit to {request} or more", at="limit")
        return self


class Gpu(Strict):
    """GPUs of a pod: whole devices, or of exactly one device a share of its memory or a MIG slice."""

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
            raise wrong("duplicate", "says devices beside requests or limits", "keep devices alone")
        if len(set(both.values())) > 1:
            message = f"requests {both['requests']} and limits {both['limits']} differ; GPUs cannot be overcommitted"
            raise wrong("gpu_requests_differ", message, f"write gpu: {both['requests']}")
        rest = {name: value for name, value in data.items() if name not in ("requests", "limits")}
        return rest | {"devices": next(iter(both.values()))} if both else rest

    @model_validator(mode="after")
    def _check_sharing(self) -> Self:
        if self.memory is not None and self.mig is not None:
            message = f"asks for a share of memory and for MIG slice {self.mig}; a device cannot be split both ways"
            raise wrong("gpu_share_and_mig", message, "keep memory or mig", at="mig")
        part = "memory" if self.memory is not None else "mig" if self.mig is not None else None
        if self.devices == 0 and (part or self.type):
            message = f"asks for 0 devices and for their {part or 'type'}"
            raise wrong("gpu_contradiction", message, "set devices to 1, or leave the rest out", at=part or "type")
        whole = self.memory is not None and (self.memory.request or self.memory.limit) == WHOLE_DEVICE
        if part and not whole and self.devices not in (None, 1):
            message = f"a part of a device is only there with exactly 1 device, found {self.devices}"
            hint = f"set devices to 1, or leave {part} out to get whole devices"
            raise wrong("gpu_share_of_many", message, hint, at=part)
        devices = 1 if self.devices is None and (part or self.type) else self.devices
        return self.model_copy(update={"devices": devices, "memory": None if whole else self.memory})


class Resources(Strict):
    """The amounts of a request, a compute resource, a template or a policy's defaults."""

    cpu: CpuAmount | None = None
    mem: BytesAmount | None = None
    disk: BytesAmount | None = None
    gpu: Gpu | None = None
    shm: SharedMemory | None = None
    extended: Mapping[ExtendedResourceName, Count] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _read_list(cls, data: Any) -> Any:
        """The oldest form: [{resource_type: cpu, requests: 1, limits: 2}]."""
        if not isinstance(data, list | tuple):
            return data
        named: dict[str, Any] = {}
        mistakes: list[Mistake] = []
        for index, entry in enumerate(data):
            entry = {to_snake(str(name)): value for name, value in entry.items()} if isinstance(entry, Mapping) else {}
            kind = entry.get("resource_type")
            at = f"{index}.resource_type"
            if not isinstance(kind, str):
                message = f"must have a resource_type, found {show(data[index])}"
                mistakes.append(Mistake(str(index), "required", message, "write a mapping: {cpu: 8, mem: 32Gi}"))
            elif kind in named:
                mistakes.append(Mistake(at, "duplicate", f"{show(kind)} is there twice", "keep one"))
            elif kind not in cls.model_fields:
                hint = nearest(kind, cls.model_fields)
                mistakes.append(Mistake(at, "unknown_field", f"unknown resource {show(kind)}", hint))
            else:
                named[kind] = {name: value for name, value in entry.items() if name != "resource_type"}
        if mistakes:
            try:
                cls.model_validate(named)
            except ValidationError as error:
                mistakes += mistakes_in(error, cls)
            raise several_wrong(mistakes)
        return named
