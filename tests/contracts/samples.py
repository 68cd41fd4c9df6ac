"""Sample records: one of each kind, and many in which every list has ties, missing values and unusual characters."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

from fairlead.model import records
from fairlead.model.nodes import PodRequest
from fairlead.model.plans import Demand, RunResources
from fairlead.model.quantities import NANOS
from fairlead.ports import Store

NOW = datetime(2026, 3, 1, 12, 30, 15, 123456, tzinfo=UTC)
SCOPES = ("cluster/main", "department/vision", "project/forest", "project/meadow")

Kind = TypeVar("Kind")

_STAMPS = {"created_by": "ada", "created_at": NOW, "updated_by": "ada", "updated_at": NOW}
_REQUIRED_FIELDS: Mapping[type, dict[str, Any]] = {
    records.ScopeRecord: {**_STAMPS, "kind": "project", "parent": "platform"},
    records.ComputeResourceRecord: {**_STAMPS, "scope": "platform"},
    records.TemplateRecord: {**_STAMPS, "scope": "platform"},
    records.RevisionRecord: {"object_id": "c1", "number": 1, "content": {}, "created_by": "ada", "created_at": NOW},
    records.PolicyRecord: {**_STAMPS, "scope": "platform", "content": {}},
    records.SecretRecord: {**_STAMPS, "scope": "platform", "sealed": b"sealed", "key_id": "k1"},
    records.VolumeRecord: {**_STAMPS, "scope": "platform", "size": "1Gi"},
    records.FunctionRecord: {**_STAMPS, "scope": "platform", "kind": "python", "content": {"source": "main.py"}},
    records.GrantRecord: {**_STAMPS, "role": "admin", "scope": "platform"},
    records.TokenRecord: {**_STAMPS, "user": "ada", "groups": [], "purpose": "api", "expires_at": None},
    records.RunRecord: {
        **_STAMPS,
        "scope": "platform",
        "function": "train",
        "action": "job",
        "state": "queued",
        "reason": "waiting",
        "message": "",
    },
    records.AttemptRecord: {
        "run_id": "run-1",
        "number": 1,
        "state": "failed",
        "reason": "ExitCode",
        "message": "",
        "started_at": NOW,
        "finished_at": None,
        "usage": {"memory": 1},
    },
    records.ScheduleRecord: {
        **_STAMPS,
        "scope": "platform",
        "function": "train",
        "cron": "0 6 * * *",
        "timezone": "UTC",
        "missed": "once",
        "overlap": "allow",
        "request": {"function": {"name": "train"}},
        "user": "ada",
    },
    records.PlanRecord: {"request": {}, "plan": {}, "demand": Demand(PodRequest({"pods": NANOS}), RunResources())},
    records.EventRecord: {"run_id": "run-1", "at": NOW, "state": "queued", "reason": "", "message": ""},
    records.OutcomeRecord: {"result": None, "error": None, "usage": {}},
    records.RunFileRecord: {"run_id": "run-1", "path": "log", "size": 2, "modified_at": NOW},
    records.FilePartRecord: {"file_id": "run-1/log", "number": 0, "content": b"\x00\xff"},
    records.BlobRecord: {"content": b"\x00\xff"},
    records.CodeRecord: {"digest": "sha256:1", "size": 2, "created_by": "ada", "created_at": NOW},
    records.ServerRecord: {**_STAMPS, "name": "host", "url": "http://127.0.0.1", "seen_at": NOW},
    records.AuditRecord: {
        "at": NOW,
        "user": "ada",
        "via": "token",
        "address": "::1",
        "request_id": "r1",
        "action": "scope.create",
        "kind": "scope",
        "object_id": "p1",
        "scope_id": "scope-1",
        "scope": "platform",
    },
    records.IdempotencyRecord: {"user": "ada", "digest": "d1", "answer": None, "created_at": NOW},
    records.SettingsRecord: _STAMPS,
}
# Further unique fields, derived from the ID.
_UNIQUE_FIELDS: Mapping[type, tuple[str, ...]] = {
    records.ScopeRecord: ("name", "scope"),
    records.ComputeResourceRecord: ("name",),
    records.TemplateRecord: ("name",),
    records.RevisionRecord: ("name",),
    records.SecretRecord: ("name",),
    records.VolumeRecord: ("name",),
    records.FunctionRecord: ("name",),
    records.ScheduleRecord: ("name",),
    records.GrantRecord: ("subject",),
    records.TokenRecord: ("name", "digest"),
    records.AuditRecord: ("name",),
}
# Dependent records need their parent.
DEPENDENT_KINDS = (
    *(records.PlanRecord, records.EventRecord, records.OutcomeRecord, records.AttemptRecord),
    *(records.RunFileRecord, records.FilePartRecord),
)
KINDS = tuple(kind for kind in _REQUIRED_FIELDS if kind not in DEPENDENT_KINDS)
NAMES = ("Twin", "zebra", "äpfel", "TWIN", "50%", "a_b", "Zürich", "twin", "aXb", "日本", "\\", "Äpfel", "it's")
_TEXTS = ("Zebra", "apple", "Äpfel", "äpfel", "50%", "a_b", "", "APPLE", "\\")
_OPTIONAL_TEXTS = ("beta", "Alpha", None, "alpha")
_MOMENTS = (NOW, NOW + timedelta(microseconds=1), NOW - timedelta(days=400), NOW, NOW + timedelta(days=1))
_ALL_SCOPES = ("platform", *SCOPES)
_REQUIREMENTS: Sequence[records.JSON] = (
    {"resources": {"cpu": {"requests": "500m", "limits": "unlimited"}, "mem": {"requests": "1Gi", "limits": "2Gi"}}},
    {},
    {"resources": {"cpu": {"requests": "2", "limits": "4"}, "gpu": {"devices": 2, "memory": {"request": "50%"}}}},
    {"resources": {"mem": {"requests": "1024Mi", "limits": "unlimited"}, "gpu": {"devices": 0}}},
    {"resources": {"gpu": {"devices": 1, "memory": {"limit": "10Gi"}}, "cpu": {"requests": "500m"}}},
    {
        "resources": {"mem": {"limits": "7Ei"}, "cpu": {"limits": "9223372036854775807"}}
    },  # the largest value of a column
)
_STAMP_VALUES: Mapping[str, Sequence[Any]] = {
    "created_by": _TEXTS,
    "created_at": _MOMENTS,
    "updated_by": ("ada", "Grace", "grace"),
    "updated_at": _MOMENTS[1:],
    "revision": (1, 3, 2, 3),
}
_ASSET_VALUES: Mapping[str, Sequence[Any]] = {
    **_STAMP_VALUES,
    "name": NAMES,
    "description": _TEXTS,
    "scope": _ALL_SCOPES,
    "cluster": (None, "cluster/main"),
    "requirements": _REQUIREMENTS,
    "archived": (False, True, False),
    "successor": _OPTIONAL_TEXTS,
    "managed_by": _OPTIONAL_TEXTS,
}
_FIELD_VALUES: Mapping[type, Mapping[str, Sequence[Any]]] = {
    records.ScopeRecord: {**_STAMP_VALUES, "name": NAMES, "parent": _ALL_SCOPES, "managed_by": _OPTIONAL_TEXTS},
    records.ComputeResourceRecord: _ASSET_VALUES,
    records.TemplateRecord: {**_ASSET_VALUES, "compute_resource": (NAMES[0], None, "gone", NAMES[1], NAMES[0])},
    records.PolicyRecord: {**_STAMP_VALUES, "managed_by": _OPTIONAL_TEXTS},
    records.SecretRecord: {**_STAMP_VALUES, "name": _TEXTS, "scope": _ALL_SCOPES},
    records.VolumeRecord: {**_STAMP_VALUES, "name": _TEXTS, "scope": _ALL_SCOPES, "storage_class": _OPTIONAL_TEXTS},
    records.FunctionRecord: {**_STAMP_VALUES, "name": _TEXTS, "scope": _ALL_SCOPES, "kind": ("python", "container")},
    records.GrantRecord: {**_STAMP_VALUES, "subject": _TEXTS, "role": ("admin", "member"), "scope": _ALL_SCOPES},
    records.TokenRecord: {
        **_STAMP_VALUES,
        "name": _TEXTS,
        "user": ("ada", "Grace", "grace"),
        "purpose": ("api", "login"),
        "expires_at": (None, *_MOMENTS),
        "created_with": (None, "tokenrecord-01"),
    },
    records.RunRecord: {
        **_STAMP_VALUES,
        "scope": _ALL_SCOPES,
        "function": _TEXTS,
        "action": ("job", "serve"),
        "state": ("queued", "running", "completed"),
        "reason": ("waiting", "Waiting", "", "done"),
        "active": (True, True, False),
        "compute_resource": _OPTIONAL_TEXTS,
        "compute_resource_id": ("computeresourcerecord-01", "computeresourcerecord-02", None, "gone"),
        "template": _OPTIONAL_TEXTS,
        "template_id": (None, "templaterecord-03", "templaterecord-01", "templaterecord-03", "gone"),
        "finished_at": (None, None, *_MOMENTS),
        "priority": (0, 5, -5),
        "schedule": _OPTIONAL_TEXTS,
    },
    records.ScheduleRecord: {
        **_STAMP_VALUES,
        "name": _TEXTS,
        "scope": _ALL_SCOPES,
        "function": _TEXTS,
        "paused": (False, True),
        "next_at": (None, *_MOMENTS),
        "last_at": (None, None, *_MOMENTS),
    },
    records.AuditRecord: {
        "at": _MOMENTS,
        "user": ("ada", "Grace", "grace"),
        "action": ("run.create", "run.stop", "Run.stop"),
        "kind": ("run", "scope"),
        "name": _TEXTS,
        "object_id": ("a", "b", "B"),
        "scope": ("project/gone", *_ALL_SCOPES),
        "address": ("::1", "10.0.0.1"),
        "request_id": ("r1", "R1", "r0"),
    },
}


def make(kind: type[Kind], id: str, /, **fields: Any) -> Kind:
    """A record of the given kind, with defaults for all other fields."""
    return kind(**{"id": id, **dict.fromkeys(_UNIQUE_FIELDS.get(kind, ()), id), **_REQUIRED_FIELDS[kind], **fields})


def make_scopes() -> Iterator[records.ScopeRecord]:
    """The platform, and scopes of every kind in it."""
    parent = None
    for number, scope in enumerate(("platform", *SCOPES)):
        kind, _, name = scope.partition("/")
        yield make(records.ScopeRecord, f"scope-{number}", kind=kind, name=name or kind, scope=scope, parent=parent)
        parent = scope if kind != "project" else parent


def add_records(store: Store, *records_to_add: Any) -> None:
    """Add records to a store."""
    with store.changing("organization", "assets") as tx:
        for record in records_to_add:
            tx.add(record)


def make_world() -> Iterator[Any]:
    """Records of every listed kind, scopes first. Values repeat with different periods, so that most pairs occur."""
    yield from make_scopes()
    for kind, values_by_field in _FIELD_VALUES.items():
        for number, name in enumerate(NAMES):
            fields = {field: values[number % len(values)] for field, values in values_by_field.items()}
            if kind in (records.ScopeRecord, records.PolicyRecord):
                fields |= {"scope": f"project/{name}"}
            yield make(kind, f"{kind.__name__.lower()}-{number:02}", **fields)
