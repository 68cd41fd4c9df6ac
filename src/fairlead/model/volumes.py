"""Volumes of a run: what is mounted where, and whether the platform makes it or it exists already."""

import posixpath
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from fairlead.model.names import DNS_SUBDOMAIN, VARIABLE, DnsLabel, DnsSubdomain
from fairlead.model.numbers import Size
from fairlead.model.parsing import Flag, Mistake, Strict, parse_text, refuse, show, wrong

RESERVED = "fairlead-"

VolumeType = Literal["persistent_volume_claim", "shared_volume", "config_map", "secret", "empty_dir", "ephemeral"]

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
NAMED_BY: Mapping[str, str] = {"shared_volume": "claim_name", "config_map": "name", "secret": "name"}
EXISTING = ("shared_volume", "config_map")
OF_PROCESSES = ("/proc", "/dev/fd")  # where container runtimes mount nothing, and paths mean another thing to each


def parse_mount_path(value: Any) -> str:
    """An absolute path inside the container."""
    if not isinstance(value, str) or not value.startswith("/"):
        raise wrong("absolute", f"must be an absolute path, found {show(value)}", "begin it with /")
    if ":" in value or not value.isprintable() or ".." in value.split("/") or len(value) > 4096:
        raise wrong("path", f"must be a path without ':' and '..', found {show(value)}", "write one such as /data")
    path = posixpath.normpath(value)
    if path in ("/", "//"):
        raise wrong("path", "must not be the root folder", "mount it at a folder such as /data")
    path = path.replace("//", "/")
    if any(path == folder or path.startswith(f"{folder}/") for folder in OF_PROCESSES):
        raise wrong(
            "path", f"tells of processes, and takes no volume: {show(path)}", "mount it at a folder such as /data"
        )
    return path


def parse_sub_path(value: Any) -> str:
    """A path inside a volume."""
    text = parse_text(value)
    if not text or not text.isprintable() or text.startswith("/") or ".." in text.split("/"):
        raise wrong("path", f"must be a path inside the volume, found {show(text)}", "write one such as models/base")
    return text


class VolumeSpec(Strict):
    """What a volume is made of; which fields are allowed depends on its type."""

    SPELLINGS: ClassVar[Mapping[str, str]] = {"sizeLimit": "size", "size_limit": "size"}

    size: Size | None = None
    storage_class: DnsSubdomain | None = None
    medium: Literal["Memory"] | None = None
    claim_name: DnsSubdomain | None = None
    name: str | None = None


class Volume(Strict):
    """A folder of the container that comes from elsewhere."""

    name: DnsLabel
    volume_type: VolumeType
    mount_path: Annotated[str, PlainValidator(parse_mount_path), WithJsonSchema({"type": "string", "pattern": "^/"})]
    read_only: Flag = False
    sub_path: Annotated[str, PlainValidator(parse_sub_path), WithJsonSchema({"type": "string"})] | None = None
    spec: VolumeSpec = Field(default_factory=VolumeSpec)

    @model_validator(mode="after")
    def _check(self) -> Self:
        refuse(self._find_mistakes())
        return self

    def _find_mistakes(self) -> Iterator[Mistake]:
        for field in VolumeSpec.model_fields:
            if getattr(self.spec, field) is not None and field not in SPEC_FIELDS[self.volume_type]:
                message = f"{self.volume_type} has no {field}"
                yield Mistake(f"spec.{field}", "unknown_field", message, self._suggest(field))
        if self.volume_type in SIZED and self.spec.size is None:
            yield Mistake("spec.size", "required", "is missing", "say how much to reserve, such as 10Gi")
        grammar, shown = VARIABLE if self.volume_type == "secret" else DNS_SUBDOMAIN, self.spec.name or self.name
        if self.volume_type in NAMED and not grammar.matches(shown):
            message = f"is no name of a {self.volume_type}: {show(shown)}"
            yield Mistake("spec.name", "name", message, f"use {grammar.words}")
        if self.name.startswith(RESERVED):
            message = f"names with {RESERVED} are the platform's, found {self.name}"
            yield Mistake("name", "reserved", message, "rename it")

    def to_data(self) -> dict[str, Any]:
        """As people write it; what is not said is left out."""
        data = self.model_dump(exclude_none=True, exclude_unset=True)
        return {name: value for name, value in data.items() if value != {}}

    def _suggest(self, field: str) -> str:
        if field == "claim_name" and self.volume_type == "persistent_volume_claim":
            return "for a volume that exists already use volume_type: shared_volume"
        return f"its spec has {', '.join(SPEC_FIELDS[self.volume_type])}"
