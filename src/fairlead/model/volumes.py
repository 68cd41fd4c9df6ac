"""A run's volumes: new ones that the platform creates, and existing ones."""

import posixpath
from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, PlainValidator, WithJsonSchema, model_validator

from fairlead.model.names import DNS_SUBDOMAIN, VARIABLE, DnsLabel, DnsSubdomain
from fairlead.model.numbers import Size
from fairlead.model.parsing import Flag, Mistake, StrictModel, field_error, parse_text, raise_mistakes, short_repr

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
