"""Volumes of a run: what is mounted where, and whether the platform makes it or it exists already."""

import posixpath
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self, get_args

from pydantic import Field, PlainValidator, model_validator

from fairlead.model.names import DNS_SUBDOMAIN, VARIABLE, DnsLabel, DnsSubdomain
from fairlead.model.numbers import Size
from fairlead.model.parsing import Strict, show, wrong

RESERVED = "fairlead-"

VolumeType = Literal["persistent_volume_claim", "shared_volume", "config_map", "secret", "empty_dir", "ephemeral"]
VOLUME_TYPES: tuple[str, ...] = get_args(VolumeType)

# What each type may say in its spec.
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
EXISTING = ("shared_volume", "config_map")


def parse_mount_path(value: Any) -> str:
    """An absolute path inside the container."""
    if not isinstance(value, str) or not value.startswith("/"):
        raise wrong("absolute", f"must be an absolute path, found {show(value)}", "begin it with /")
    if ":" in value or not value.isprintable() or ".." in value.split("/") or len(value) > 4096:
        raise wrong("path", f"must be a plain path without ':' and '..', found {show(value)}", "such as /data")
    path = posixpath.normpath(value)
    if path in ("/", "//"):
        raise wrong("path", "must not be the root folder", "mount it at a folder such as /data")
    return path.replace("//", "/")


def parse_sub_path(value: Any) -> str:
    """A path inside a volume."""
    if not isinstance(value, str) or not value or value.startswith("/") or ".." in value.split("/"):
        raise wrong("path", f"must be a relative path without '..', found {show(value)}", "such as models/base")
    return value


class VolumeSpec(Strict):
    """What a volume is made of; which fields are allowed depends on its type."""

    SPELLINGS: ClassVar[Mapping[str, str]] = {"sizeLimit": "size", "size_limit": "size"}

    size: Size | None = None
    storage_class: DnsSubdomain | None = None
    medium: Literal["Memory", ""] | None = None
    claim_name: DnsSubdomain | None = None
    name: str | None = None


class Volume(Strict):
    """A folder of the container that comes from elsewhere."""

    name: DnsLabel
    volume_type: VolumeType
    mount_path: Annotated[str, PlainValidator(parse_mount_path)]
    read_only: Annotated[bool, Field(strict=True)] = False
    sub_path: Annotated[str, PlainValidator(parse_sub_path)] | None = None
    spec: VolumeSpec = Field(default_factory=VolumeSpec)

    @model_validator(mode="after")
    def _check(self) -> Self:
        allowed = SPEC_FIELDS[self.volume_type]
        for name in self.spec.model_fields_set:
            if getattr(self.spec, name) is not None and name not in allowed:
                raise wrong(
                    "unknown_field", f"{self.volume_type} has no {name}", self._suggest(name), at=f"spec.{name}"
                )
        if self.volume_type in SIZED and self.spec.size is None:
            raise wrong("required", "is missing", "say how much to reserve, such as 10Gi", at="spec.size")
        grammar = VARIABLE if self.volume_type == "secret" else DNS_SUBDOMAIN
        if self.volume_type in NAMED and not grammar.matches(self.object_name):
            message = f"is no name of a {self.volume_type}: {show(self.object_name)}"
            raise wrong("name", message, f"use {grammar.words}", at="spec.name")
        if self.name.startswith(RESERVED):
            raise wrong(
                "reserved", f"names with {RESERVED} are the platform's, found {self.name}", "rename it", at="name"
            )
        return self

    @property
    def object_name(self) -> str:
        """The existing object that a shared volume, config map or secret volume shows."""
        return self.spec.claim_name or self.spec.name or self.name

    def _suggest(self, field: str) -> str:
        if field == "claim_name" and self.volume_type == "persistent_volume_claim":
            return "for a volume that exists already use volume_type: shared_volume"
        return f"its spec has {', '.join(SPEC_FIELDS[self.volume_type])}"
