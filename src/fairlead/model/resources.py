"""What of a machine is asked for: cpu, memory, disk, GPUs, shared memory and extended resources."""

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import Field, PlainSerializer, PlainValidator, field_validator, model_validator

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
from fairlead.model.parsing import Strict, nearest, show, wrong
from fairlead.model.quantities import Percent, Quantity, Unlimited

MOST_DEVICES = 1024
WHOLE_DEVICE = Percent(100)


class Amount(Strict):
    """A request and a limit. Written as a scalar, it is the request and says nothing of a limit."""

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
            raise wrong(
                "required", "says neither a request nor a limit", "write a share such as 50% or an amount: 10GB"
            )
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

    devices: Annotated[int, PlainValidator(lambda value: parse_devices(value))] = 1
    type: LabelValue | None = None
    memory: GpuMemoryAmount | None = None
    mig: Annotated[str, PlainValidator(lambda value: parse_mig(value))] | None = None

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
            message = (
                f"requests {both['requests']} and limits {both['limits']} differ; GPU devices cannot be overcommitted"
            )
            raise wrong("gpu_requests_differ", message, f"write gpu: {both['requests']}")
        rest = {name: value for name, value in data.items() if name not in ("requests", "limits")}
        return rest | {"devices": next(iter(both.values()))} if both else rest

    @model_validator(mode="after")
    def _check_sharing(self) -> Self:
        if self.memory is not None and self.mig is not None:
            message = (
                f"asks for a share of memory and for the MIG slice {self.mig}; one device cannot be split both ways"
            )
            raise wrong("gpu_share_and_mig", message, "keep memory or mig", at="mig")
        if self.memory is not None and self.memory.request == WHOLE_DEVICE:
            return self.model_copy(update={"memory": None})
        part = "memory" if self.memory is not None else "mig" if self.mig is not None else None
        if self.devices == 0 and (part or self.type):
            message = f"asks for 0 devices and for their {part or 'type'}"
            raise wrong("gpu_contradiction", message, "set devices to 1, or leave the rest out", at=part or "type")
        if part and self.devices != 1:
            message = f"a part of a device is only there with exactly 1 device, found {self.devices}"
            raise wrong(
                "gpu_share_of_many", message, f"set devices to 1, or leave {part} out to get whole devices", at=part
            )
        return self


class Resources(Strict):
    """The amounts of a request, a compute resource, a template or a policy's defaults."""

    cpu: CpuAmount | None = None
    mem: BytesAmount | None = None
    disk: BytesAmount | None = None
    gpu: Gpu | None = None
    shm: (
        Annotated[
            bool | Quantity,
            PlainValidator(lambda value: parse_shm(value)),
            PlainSerializer(lambda value: value if isinstance(value, bool) else str(value)),
        ]
        | None
    ) = None
    extended: Mapping[ExtendedResourceName, Count] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _read_list(cls, data: Any) -> Any:
        """The oldest form: [{resource_type: cpu, requests: 1, limits: 2}]."""
        if not isinstance(data, list | tuple):
            return data
        named: dict[str, Any] = {}
        for index, entry in enumerate(data):
            if not isinstance(entry, Mapping) or not isinstance(entry.get("resource_type"), str):
                hint = "write resources as a mapping: {cpu: 8, mem: 32Gi}"
                raise wrong("required", f"must have a resource_type, found {show(entry)}", hint, at=str(index))
            kind = entry["resource_type"]
            if kind in named:
                raise wrong("duplicate", f"{show(kind)} is there twice", "keep one", at=f"{index}.resource_type")
            if kind not in cls.model_fields:
                hint = nearest(kind, cls.model_fields)
                raise wrong("unknown_field", f"unknown resource {show(kind)}", hint, at=f"{index}.resource_type")
            named[kind] = {name: value for name, value in entry.items() if name != "resource_type"}
        return named

    @field_validator("extended", mode="before")
    @classmethod
    def _read_nothing(cls, data: Any) -> Any:
        return {} if data is None else data


def parse_devices(value: Any) -> int:
    """A number of whole GPUs; whoever writes a fraction learns how a share is asked for."""
    text = str(value) if isinstance(value, str | float) else ""
    if re.fullmatch(r"[0-9]*\.[0-9]+|[0-9]{1,3}%", text, re.ASCII) and not (
        isinstance(value, float) and value % 1 == 0
    ):
        percent = text.removesuffix("%") if "%" in text else f"{min(99, max(1, round(float(text) % 1 * 100)))}"
        hint = f"for a share of one GPU's memory write gpu: {{devices: 1, memory: {percent}%}}"
        raise wrong("whole_number", f"GPUs are whole devices, found {show(value)}", hint)
    whole = int(value) if isinstance(value, float) and value % 1 == 0 else value
    return parse_whole(whole, most=MOST_DEVICES, hint="write a number of devices, such as 1")


def parse_mig(value: Any) -> str:
    """A MIG profile, as NVIDIA names them."""
    if not isinstance(value, str) or not re.fullmatch(r"[1-7]g\.[1-9][0-9]{0,2}gb(\+me)?", value, re.ASCII):
        raise wrong("mig_profile", f"is no MIG profile: {show(value)}", "write one such as 1g.5gb or 3g.20gb")
    return value


def parse_shm(value: Any) -> bool | Quantity:
    """Shared memory: true for as much as memory allows, false for the default, or a size."""
    if isinstance(value, bool):
        return value
    return positive(parse_bytes)(value)
