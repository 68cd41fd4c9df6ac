"""A complete platform over a store: services, a small organization and callers."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from fairlead.adapters.keyrings import AesKeyring, parse_keys
from fairlead.errors import Conflict, FairleadError, RequestRejected
from fairlead.model.assets import ComputeResource, Policy, Template
from fairlead.model.parsing import StrictModel
from fairlead.model.plans import Violation
from fairlead.model.records import (
    JSON,
    AuditRecord,
    ComputeResourceRecord,
    PolicyRecord,
    RunRecord,
    TemplateRecord,
)
from fairlead.model.requests import RunRequest
from fairlead.model.scopes import Cluster, Department, Grant, Project
from fairlead.ports import Principal, Store
from fairlead.services import registry
from fairlead.services.access.tokens import FirstRun
from fairlead.services.registry import Services
from fairlead.services.transactions.pages import ListQuery
from fairlead.services.transactions.unit_of_work import Call
from tests.making import CONTAINER

NOW = datetime(2026, 11, 15, 8, 30, tzinfo=UTC)
KEY = base64.b64encode(bytes(range(32))).decode()
OTHER_KEY = base64.b64encode(bytes(range(1, 33))).decode()
# platform > cluster/main > department/vision > project/forest and project/meadow; department/speech > project/lake
TREE = (
    Cluster(name="main", gpu_sharing="kai"),
    Department(name="vision", parent="cluster/main"),
    Department(name="speech", parent="cluster/main"),
    Project(name="forest", parent="department/vision"),
    Project(name="meadow", parent="department/vision"),
    Project(name="lake", parent="department/speech"),
)
FOREST, MEADOW, LAKE = "project/forest", "project/meadow", "project/lake"
VISION, SPEECH, MAIN = "department/vision", "department/speech", "cluster/main"


class Clock:
    """A clock that tests advance."""

    def __init__(self) -> None:
        self.now = NOW

    def __call__(self) -> datetime:
        self.now += timedelta(microseconds=1)  # so that later events have later times
        return self.now

    def monotonic(self) -> float:
        """Return the time in seconds, like `time.monotonic`."""
        return self.now.timestamp()

    def pass_by(self, **time: float) -> None:
        """Advance the clock."""
        self.now += timedelta(**time)


def call_as(user: str = "root", *groups: str, **options: Any) -> Call:
    """A call by an authenticated user."""
    return Call(principal=Principal(user, groups, "test"), **options)


@dataclass(frozen=True)
class World:
    """A platform with a store, use cases and an administrator."""

    store: Store
    clock: Clock
    services: Services
    first_run: FirstRun
    keyring: AesKeyring
    root: Call = field(default_factory=call_as)

    def grant(self, user: str, role: str, scope: str) -> Call:
        """Grant a role to a user or to `group:<name>`, and return a call as that user."""
        subject = user if ":" in user else f"user:{user}"
        grant = Grant.model_validate({"subject": subject, "role": role, "scope": scope})
        self.services.grants.create(self.root, grant)
        return call_as(user)

    def add_compute_resource(
        self, name: str = "big", *, call: Call | None = None, **fields: Any
    ) -> ComputeResourceRecord:
        """Create a compute resource. Any other fields become its requirements."""
        asset = ComputeResource.model_validate({"name": name, **_split_requirements(fields, ComputeResource)})
        return self.services.compute_resources.create(call or self.root, asset)

    def add_template(self, name: str = "start", *, call: Call | None = None, **fields: Any) -> TemplateRecord:
        """Create a template. Any other fields become its requirements."""
        asset = Template.model_validate({"name": name, **_split_requirements(fields, Template)})
        return self.services.templates.create(call or self.root, asset)

    def put_policy(self, scope: str = "platform", **content: Any) -> PolicyRecord:
        """Create or replace a scope's policy."""
        policy = Policy.model_validate({"scope": scope, **content})
        return self.services.policies.put(call_as(any_revision=True), scope, policy)

    def submit(self, scope: str = FOREST, *, call: Call | None = None, **request: Any) -> RunRecord:
        """Submit a run of a container."""
        return self.services.runs.submit(call or self.root, scope, make_request(**request))

    def preview(self, scope: str = FOREST, *, call: Call | None = None, **request: Any) -> JSON:
        """Preview a run."""
        return self.services.runs.preview(call or self.root, scope, make_request(**request))

    def remove_cluster(self) -> None:
        """Delete the local cluster and its project, which the first start creates."""
        for scope in ("project/default", "cluster/local"):
            self.services.scopes.delete(self.root, scope)

    def audit(self, **filters: str) -> list[AuditRecord]:
        """The audit entries, oldest first."""
        pages = self.services.audits.export(self.root, ListQuery(filters=tuple(filters.items())))
        return [entry for page in pages for entry in page]

    def audit_actions(self) -> list[tuple[str, str]]:
        """The actions and names of the audit entries."""
        return [(entry.action, entry.name) for entry in self.audit()]


def make_world(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    *,
    keys: str = KEY,
    execution: registry.ExecutionOptions | None = None,
) -> World:
    """Services over a store, which may already contain data."""
    clock = Clock()
    monkeypatch.setattr(registry, "now", clock)
    monkeypatch.setattr(registry, "monotonic", clock.monotonic)
    keyring = AesKeyring(parse_keys(keys))
    services, first_run = registry.build_services(store, keyring, execution=execution)
    return World(store, clock, services, first_run, keyring)


def initialize_world(
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    *,
    execution: registry.ExecutionOptions | None = None,
    tree: Sequence[Any] = TREE,
) -> World:
    """Services over a new store, with an organization tree."""
    world = make_world(store, monkeypatch, execution=execution)
    world.first_run.initialize(["user:root"])
    with world.services.scopes.units.changing(world.root, "organization") as unit:  # one commit instead of six
        for scope in tree:
            world.services.scopes.add(unit.refreshed(), scope)
    return world


def make_request(**request: Any) -> RunRequest:
    """A request, for a container by default."""
    return RunRequest.model_validate({"function": CONTAINER, **request})


def listing(search: str = "", sort: str | None = None, **options: Any) -> ListQuery:
    """List parameters: limit, cursor, total, and filters by column."""
    paging = {name: options.pop(name) for name in ("limit", "cursor", "total") if name in options}
    return ListQuery(tuple(options.items()), search, sort, **paging)


def names(records: Sequence[Any]) -> list[str]:
    """The names of records."""
    return [record.name for record in records]


def rejection_rules(caught: pytest.ExceptionInfo[RequestRejected]) -> list[tuple[str, str]]:
    """The paths and rules of violations. Each has a message."""
    check_texts(caught.value.violations)
    return [(violation.path, violation.rule) for violation in caught.value.violations]


def check_texts(violations: Sequence[Violation]) -> None:
    """Check that each violation has a message that contains neither None nor double spaces."""
    assert violations
    for violation in violations:
        assert violation.message
        assert "None" not in violation.message, violation.message
        assert "  " not in violation.message, violation.message


def users_of(caught: pytest.ExceptionInfo[Conflict]) -> list[tuple[str, str]]:
    """The objects that cause a conflict."""
    return [(user["kind"], user["name"]) for user in caught.value.used_by]


def error_text(caught: pytest.ExceptionInfo[FairleadError]) -> str:
    """The message and hint of an error."""
    return f"{caught.value} -> {caught.value.hint}"


def finding_rules(violations: Sequence[Mapping[str, Any]]) -> list[tuple[str, str]]:
    """The paths and rules of violations or warnings that arrive as JSON."""
    assert all(item["message"] for item in violations)
    return [(item["path"], item["rule"]) for item in violations]


def setting(plan: JSON, path: str) -> Any:
    """The value of a setting in a plan that arrives as JSON."""
    return {item["path"]: item["value"] for item in plan["settings"]}.get(path)


def _split_requirements(fields: Mapping[str, Any], model: type[StrictModel]) -> JSON:
    own = {name: value for name, value in fields.items() if name in model.model_fields}
    return {"requirements": {name: value for name, value in fields.items() if name not in own}, **own}
