"""Permissions: roles at scopes, groups, and visibility."""

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from fairlead.errors import Conflict, Forbidden, NotFound, RequestRejected
from fairlead.model.assets import ComputeResource, Policy, Template
from fairlead.model.project_objects import SharedVolume, TokenRequest
from fairlead.model.scopes import Grant
from fairlead.services.transactions.unit_of_work import Call
from tests.services.worlds import (
    FOREST,
    LAKE,
    MAIN,
    MEADOW,
    SPEECH,
    VISION,
    World,
    call_as,
    listing,
    make_request,
    names,
    rejection_rules,
)

UseCase = Callable[[World, Call, str], Any]


def _project(scope: str) -> str:
    """A project that is the scope itself or inside it."""
    return {"platform": FOREST, MAIN: FOREST, VISION: FOREST, SPEECH: LAKE}.get(scope, scope)


def _grant(world: World, call: Call, scope: str) -> Any:
    grant = Grant.model_validate({"subject": "user:new", "role": "viewer", "scope": scope})
    return world.services.grants.create(call, grant)


# Operations at a scope by permission. Operations on projects use a project inside the scope.
VIEW: Mapping[str, UseCase] = {
    "scopes.get": lambda w, c, s: w.services.scopes.get(c, s),
    "policies.effective": lambda w, c, s: w.services.policies.effective(c, s),
    "compute_resources.get": lambda w, c, s: w.services.compute_resources.get(c, f"at-{s.replace('/', '-')}"),
    "templates.get": lambda w, c, s: w.services.templates.get(c, f"at-{s.replace('/', '-')}"),
    "secrets.page": lambda w, c, s: w.services.secrets.page(c, _project(s), listing()),
    "volumes.page": lambda w, c, s: w.services.volumes.page(c, _project(s), listing()),
    "runs.preview": lambda w, c, s: w.services.runs.preview(c, _project(s), make_request()),
}
SHARE: Mapping[str, UseCase] = {
    "compute_resources.create": lambda w, c, s: w.add_compute_resource("new", scope=s, call=c),
    "templates.create": lambda w, c, s: w.add_template("new", scope=s, call=c),
    "policies.put": lambda w, c, s: w.services.policies.put(c, s, Policy(scope=s)),
    "policies.validate": lambda w, c, s: w.services.policies.validate(c, s, Policy(scope=s)),
    "compute_resources.edit": lambda w, c, s: w.services.compute_resources.edit(c, _at(s), {"description": "x"}),
    "compute_resources.archive": lambda w, c, s: w.services.compute_resources.archive(c, _at(s), None),
    "templates.delete": lambda w, c, s: w.services.templates.delete(c, _at(s)),
}
RUN: Mapping[str, UseCase] = {
    "runs.submit": lambda w, c, s: w.submit(_project(s), call=c),
    "secrets.put": lambda w, c, s: w.services.secrets.put(c, _project(s), "NEW", "x"),
    "volumes.create": lambda w, c, s: w.services.volumes.create(c, _project(s), SharedVolume(name="new", size="1Gi")),
}
ADMINISTER: Mapping[str, UseCase] = {
    "scopes.edit": lambda w, c, s: w.services.scopes.edit(c, s, {"name": "renamed"}),
    "grants.create": _grant,
}
ROLE_PERMISSIONS = {"view": VIEW, "share": SHARE, "run": RUN, "administer": ADMINISTER}
ALLOWED = {"admin": set(ROLE_PERMISSIONS), "editor": {"view", "share"}, "member": {"view", "run"}, "viewer": {"view"}}


def _at(scope: str) -> str:
    return f"at-{scope.replace('/', '-')}"


def outcome(use_case: UseCase, world: World, call: Call, scope: str) -> str:
    """The outcome of an operation for a caller. A violation about an invisible scope in a body counts as not found."""
    try:
        use_case(world, call, scope)
    except Forbidden as error:
        return "forbidden" if error.hint and (scope in str(error) or _project(scope) in str(error)) else str(error)
    except NotFound:
        return "not found"
    except RequestRejected as error:
        return "not found" if [violation.path for violation in error.violations] == ["scope"] else str(error)
    return "done"


def prepare(world: World, scope: str) -> None:
    """Create objects to read and to change at a scope."""
    world.add_compute_resource(_at(scope), scope=scope)
    world.add_template(_at(scope), scope=scope)


TABLE = [(permission, name) for permission, use_cases in ROLE_PERMISSIONS.items() for name in use_cases]


@pytest.mark.parametrize("role", ALLOWED)
@pytest.mark.parametrize(("permission", "name"), TABLE, ids=[name for _, name in TABLE])
def test_role_grants_its_permissions_at_its_scope_and_below(
    world: World, role: str, permission: str, name: str
) -> None:
    use_case = ROLE_PERMISSIONS[permission][name]
    user = world.grant("una", role, VISION)
    for scope in (VISION, FOREST, SPEECH):
        prepare(world, scope)
    expected = "done" if permission in ALLOWED[role] else "forbidden"
    assert outcome(use_case, world, user, SPEECH) == "not found"
    assert outcome(use_case, world, user, FOREST if name != "policies.put" else MEADOW) == expected
    if name not in ("compute_resources.create", "templates.create", *RUN):  # these names now exist
        assert outcome(use_case, world, user, VISION) == expected


@pytest.mark.parametrize("name", [*SHARE, *ADMINISTER])
def test_scopes_above_a_role_are_visible_but_read_only(world: World, name: str) -> None:
    use_case = {**SHARE, **ADMINISTER}[name]
    user = world.grant("una", "admin", FOREST)
    for scope in (VISION, MAIN):
        prepare(world, scope)
        assert outcome(use_case, world, user, scope) == "forbidden"
        for read in ("scopes.get", "policies.effective", "compute_resources.get", "templates.get"):
            assert outcome(VIEW[read], world, user, scope) == "done"


def test_group_roles_apply_and_accumulate(world: World) -> None:
    world.grant("group:readers", "viewer", VISION)
    world.grant("group:workers", "member", FOREST)
    reader, both = call_as("ann", "readers"), call_as("bob", "readers", "workers")
    with pytest.raises(Forbidden):
        world.submit(call=reader)
    assert world.submit(call=both).created_by == "bob"
    assert world.preview(MEADOW, call=both)["violations"] == []
    with pytest.raises(Forbidden):
        world.submit(MEADOW, call=both)
    with pytest.raises(NotFound):  # a user with that name is not the group
        world.preview(call=call_as("readers"))
    assert [role["role"] for role in world.services.tokens.me(both).roles] == ["viewer", "member"]


# Every operation on an object in another project. Each must report that the object does not exist.
OTHER_PROJECT: Mapping[str, Callable[[World, Call, Any], Any]] = {
    "scopes.get": lambda w, c, _: w.services.scopes.get(c, MEADOW),
    "scopes.edit": lambda w, c, _: w.services.scopes.edit(c, MEADOW, {"name": "x"}),
    "scopes.delete": lambda w, c, _: w.services.scopes.delete(c, MEADOW),
    "compute_resources.get": lambda w, c, _: w.services.compute_resources.get(c, "theirs"),
    "compute_resources.by id": lambda w, c, ids: w.services.compute_resources.get(c, ids["resource"]),
    "compute_resources.edit": lambda w, c, _: w.services.compute_resources.edit(c, "theirs", {"description": "x"}),
    "compute_resources.copy": lambda w, c, _: w.services.compute_resources.copy(
        c, "theirs", {"name": "mine", "scope": FOREST}
    ),
    "compute_resources.archive": lambda w, c, _: w.services.compute_resources.archive(c, "theirs", None),
    "compute_resources.restore": lambda w, c, _: w.services.compute_resources.restore(c, "theirs"),
    "compute_resources.delete": lambda w, c, _: w.services.compute_resources.delete(c, "theirs"),
    "compute_resources.revisions": lambda w, c, _: w.services.compute_resources.revisions(c, "theirs"),
    "compute_resources.compare": lambda w, c, _: w.services.compute_resources.compare(c, "theirs", 1, 1),
    "compute_resources.workloads": lambda w, c, _: w.services.compute_resources.workloads(c, "theirs", listing()),
    "compute_resources.templates": lambda w, c, _: w.services.compute_resources.templates(c, "theirs"),
    "templates.get": lambda w, c, _: w.services.templates.get(c, "theirs"),
    "templates.edit": lambda w, c, _: w.services.templates.edit(c, "theirs", {"description": "x"}),
    "templates.copy": lambda w, c, _: w.services.templates.copy(c, "theirs", {"name": "mine", "scope": FOREST}),
    "templates.delete": lambda w, c, _: w.services.templates.delete(c, "theirs"),
    "templates.revisions": lambda w, c, _: w.services.templates.revisions(c, "theirs"),
    "templates.workloads": lambda w, c, _: w.services.templates.workloads(c, "theirs", listing()),
    "policies.get": lambda w, c, _: w.services.policies.get(c, MEADOW),
    "policies.put": lambda w, c, _: w.services.policies.put(c, MEADOW, Policy(scope=MEADOW)),
    "policies.delete": lambda w, c, _: w.services.policies.delete(c, MEADOW),
    "policies.effective": lambda w, c, _: w.services.policies.effective(c, MEADOW),
    "policies.validate": lambda w, c, _: w.services.policies.validate(c, MEADOW, Policy(scope=MEADOW)),
    "secrets.page": lambda w, c, _: w.services.secrets.page(c, MEADOW, listing()),
    "secrets.put": lambda w, c, _: w.services.secrets.put(c, MEADOW, "THEIRS", "x"),
    "secrets.delete": lambda w, c, _: w.services.secrets.delete(c, MEADOW, "THEIRS"),
    "volumes.page": lambda w, c, _: w.services.volumes.page(c, MEADOW, listing()),
    "volumes.get": lambda w, c, _: w.services.volumes.get(c, MEADOW, "theirs"),
    "volumes.create": lambda w, c, _: w.services.volumes.create(c, MEADOW, SharedVolume(name="x", size="1Gi")),
    "volumes.delete": lambda w, c, _: w.services.volumes.delete(c, MEADOW, "theirs"),
    "runs.preview": lambda w, c, _: w.services.runs.preview(c, MEADOW, make_request()),
    "runs.submit": lambda w, c, _: w.services.runs.submit(c, MEADOW, make_request()),
    "runs.page": lambda w, c, _: w.services.runs.page(c, listing(), MEADOW),
    "runs.get": lambda w, c, ids: w.services.runs.get(c, ids["run"]),
    "runs.plan": lambda w, c, ids: w.services.runs.plan(c, ids["run"]),
    "runs.stop": lambda w, c, ids: w.services.runs.stop(c, ids["run"]),
    "runs.delete": lambda w, c, ids: w.services.runs.delete(c, ids["run"]),
    "grants.delete": lambda w, c, ids: w.services.grants.delete(c, ids["grant"]),
    "tokens.delete": lambda w, c, ids: w.services.tokens.delete(c, ids["token"]),
}


def create_objects(world: World) -> dict[str, str]:
    """Create an object of every kind in a project, and return the IDs of objects without a name."""
    services, root = world.services, world.root
    record = world.add_compute_resource("theirs", scope=MEADOW)
    world.add_template("theirs", scope=MEADOW, profile="theirs")
    world.put_policy(MEADOW)
    services.secrets.put(root, MEADOW, "THEIRS", "x")
    services.volumes.create(root, MEADOW, SharedVolume(name="theirs", size="1Gi"))
    world.grant("their-member", "member", MEADOW)
    grant = services.grants.page(root, listing(subject="their-member")).items[0]
    token = services.tokens.create(call_as("their-member"), TokenRequest(name="theirs"))
    return {"resource": record.id, "run": world.submit(MEADOW).id, "grant": grant.id, "token": token.id}


@pytest.mark.parametrize("role", ["viewer", "admin"])
def test_objects_of_a_sibling_project_are_not_found(world: World, role: str) -> None:
    ids = create_objects(world)
    user = world.grant("una", role, FOREST)
    outcomes = {name: _error_name(use_case, world, user, ids) for name, use_case in OTHER_PROJECT.items()}
    assert outcomes == dict.fromkeys(OTHER_PROJECT, "NotFound")
    services = world.services
    with pytest.raises(RequestRejected, match="project/meadow does not exist"):
        services.compute_resources.check(user, ComputeResource(name="x", scope=MEADOW))
    with pytest.raises(RequestRejected, match="project/meadow does not exist"):
        services.templates.check(user, Template(name="x", scope=MEADOW))
    assert names(services.scopes.page(user, listing()).items) == ["forest", "main", "platform", "vision"]
    assert names(services.compute_resources.page(user, listing(archived="false")).items) == []
    assert names(services.compute_resources.page(user, listing(search="theirs")).items) == []
    assert names(services.templates.page(user, listing(scope=MEADOW)).items) == []
    assert services.runs.page(user, listing()).items == []
    assert services.runs.page(user, listing(scope=MEADOW)).items == []
    assert services.tokens.page(user, listing()).items == []
    assert not [item for item in services.config_files.export(user) if "theirs" in str(item) or "meadow" in str(item)]
    violation = world.preview(call=user, profile="their")["violations"][0]
    assert "theirs" not in str(violation)


def _error_name(use_case: Callable[[World, Call, Any], Any], world: World, user: Call, ids: dict[str, str]) -> str:
    try:
        use_case(world, user, ids)
    except (NotFound, Forbidden, Conflict, RequestRejected) as error:
        return type(error).__name__
    return "done"


def test_user_without_roles_sees_nothing(world: World) -> None:
    caller = call_as("nobody")
    assert world.services.scopes.page(caller, listing()).items == []
    assert world.services.tokens.me(caller).roles == []
    for use_case in (
        lambda: world.services.scopes.get(caller, "platform"),
        lambda: world.services.settings.get(caller),
        lambda: world.services.policies.effective(caller, "platform"),
    ):
        with pytest.raises(NotFound):
            use_case()
    with pytest.raises(Forbidden):
        world.services.audits.page(caller, listing())
    assert world.services.grants.page(caller, listing()).items == []
    assert world.services.config_files.export(caller) == []


@pytest.mark.parametrize(
    ("use_case", "roles"),
    [
        (lambda w, c: _grant(w, c, FOREST), "admin"),
        (lambda w, c: w.add_compute_resource("new", scope=FOREST, call=c), "editor or admin"),
        (lambda w, c: w.submit(call=c), "member or admin"),
    ],
)
def test_forbidden_error_names_the_roles_that_would_allow_the_action(
    world: World, use_case: Callable[[World, Call], Any], roles: str
) -> None:
    viewer = world.grant("vic", "viewer", FOREST)
    with pytest.raises(Forbidden) as caught:
        use_case(world, viewer)
    assert caught.value.hint == f"ask an administrator of {FOREST} for the {roles} role"


def test_department_administrator_manages_roles_there_and_below_only(world: World) -> None:
    grants = world.services.grants
    ada = world.grant("ada", "admin", VISION)
    created = _grant(world, ada, FOREST)
    _grant(world, ada, VISION)
    assert {grant.scope for grant in grants.page(ada, listing()).items} == {VISION, FOREST}
    for scope in (MAIN, "platform"):
        with pytest.raises(Forbidden):
            _grant(world, ada, scope)
    with pytest.raises(RequestRejected) as caught:
        _grant(world, ada, SPEECH)
    assert rejection_rules(caught) == [("scope", "scope")]
    top = grants.page(world.root, listing(scope="platform")).items[0]
    with pytest.raises(NotFound):
        grants.delete(ada, top.id)
    grants.delete(ada, created.id)
    with pytest.raises(NotFound):
        grants.delete(ada, created.id)


@pytest.mark.every_store
def test_role_is_granted_once_and_revoked_immediately(world: World) -> None:
    mia = world.grant("mia", "member", FOREST)
    with pytest.raises(Conflict, match="user:mia already has the member role in project/forest"):
        world.grant("mia", "member", FOREST)
    world.submit(call=mia)
    grant = world.services.grants.page(world.root, listing(subject="mia")).items[0]
    world.services.grants.delete(world.root, grant.id)
    with pytest.raises(NotFound):
        world.submit(call=mia)


def test_last_platform_administrator_cannot_be_removed(world: World) -> None:
    grants = world.services.grants
    root = grants.page(world.root, listing(scope="platform")).items[0]
    with pytest.raises(Conflict, match="the last platform administrator"):
        grants.delete(world.root, root.id)
    ada = world.grant("ada", "admin", "platform")
    grants.delete(ada, root.id)
    with pytest.raises(NotFound):
        world.services.scopes.get(world.root, "platform")
