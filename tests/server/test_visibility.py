"""Users without a role in a project learn nothing about it from routes, lists, counts, hints or errors."""

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
from httpx2 import Response

from tests.server.samples import CONTAINER, REQUIREMENTS, SCRIPT, address_of, body_of, fill
from tests.server.sites import Operation, Site, problem_of

ROLES = ("viewer", "member", "editor", "admin")
LEAST_AND_MOST = ("viewer", "admin")
KINDS = ("cluster", "department", "project")
REQUEST_ID = {"X-Request-ID": "same"}

# Names in bodies: `bravo` exists but is not visible, `braxo` does not exist.
OURS, THEIRS, NOBODYS = "alpha", "bravo", "braxo"


@dataclass(frozen=True)
class World:
    """Two projects, each with something of every kind, and tokens of people who have a role in the first one."""

    site: Site
    ours: Mapping[str, str]
    theirs: Mapping[str, str]
    tokens: Mapping[str, str]

    @property
    def marks(self) -> list[str]:
        """Names and ids of the second project, which must never appear."""
        return [THEIRS, THEIRS.upper(), *self.theirs.values()]


@pytest.fixture(scope="module")
def world(common_site: Site) -> World:
    ours, theirs = fill(common_site, OURS), fill(common_site, THEIRS)
    common_site.make("/compute-resources", {"name": "shared", "requirements": REQUIREMENTS})
    common_site.make("/templates", {"name": "common", "requirements": {"profile": "shared"}})
    on_shared = {"name": "bravo-on-shared", "scope": "project/bravo", "requirements": {"profile": "shared"}}
    common_site.make("/templates", on_shared)
    common_site.make("/projects/bravo/runs", {"function": CONTAINER, "template": "common"})
    for name in ("alpha-applied", "bravo-applied"):
        document = {"kind": "ComputeResource", "name": name, "scope": f"project/{name.partition('-')[0]}"}
        common_site.make("/apply", {"documents": [document], "manager": "gitops"})
    tokens = {role: common_site.token_of(f"alpha-{role}", **{role: f"project/{OURS}"}) for role in ROLES}
    return World(common_site, ours, theirs, tokens)


def test_generated_paths_find_objects_of_our_project(world: World, operations: list[Operation]) -> None:
    """So that the 404 of the tests below is one for them, not for an address that is wrong for everybody."""
    walked = [(item, path) for item, path in addressed(operations, world.ours) if item.method == "GET"]
    assert len(walked) > 20
    for _, path in walked:
        answer = world.site.ask("GET", path.replace("new=2", "new=1"), token=world.tokens["admin"])
        assert answer.status_code == 200 or "use its new name: alpha-resource" in answer.text, f"{path}: {answer.text}"


@pytest.mark.parametrize("role", ROLES)
def test_objects_of_another_project_are_not_found(world: World, operations: list[Operation], role: str) -> None:
    for item, path in addressed(operations, world.theirs):
        answer = ask(world, role, item.method, path, body_of(item))
        problem_of(answer, 404)
        said = answer.text.replace(path.partition("?")[0], "")
        # The requested name may be repeated; nothing else of the other project may appear.
        asked = {world.theirs[name] for name in world.theirs if world.theirs[name] in path}
        for mark in world.theirs.values():
            assert mark in asked or mark not in said or any(mark in name for name in asked), f"{item.key}: {said}"


@pytest.mark.parametrize("role", ROLES)
def test_invisible_objects_are_reported_like_missing_ones(world: World, operations: list[Operation], role: str) -> None:
    nowhere = {name: other(text) for name, text in world.theirs.items()}
    for (item, there), (_, gone) in zip(
        addressed(operations, world.theirs), addressed(operations, nowhere), strict=True
    ):
        answers = [ask(world, role, item.method, path, body_of(item)) for path in (there, gone)]
        replaced = [plain(answer, world.theirs) for answer in answers]
        assert replaced[0] == replaced[1], item.key


@pytest.mark.parametrize("role", ROLES)
def test_object_of_another_project_is_not_found_in_ours(world: World, operations: list[Operation], role: str) -> None:
    mixed = dict(world.theirs) | {"project": OURS}
    nowhere = {name: other(text) for name, text in mixed.items()} | {"project": OURS}
    for item in operations:
        if "/projects/{project}/" in item.path and "{name}" in item.path:
            answers = [
                ask(world, role, item.method, address_of(item, things), body_of(item))
                for things in (mixed, nowhere)
                if item.method != "PUT"  # members may use any name in their project
            ]
            assert len({plain(answer, mixed) for answer in answers}) <= 1, item.key
            assert all(answer.status_code in (403, 404) for answer in answers), item.key


def test_code_of_another_project_is_not_found(world: World) -> None:
    """Knowing a digest or the content of code does not reveal whether it is stored."""
    theirs, nobodys = (b"code of bravo", b"unused code")
    digests = [f"sha256:{hashlib.sha256(code).hexdigest()}" for code in (theirs, nobodys)]
    world.site.put(f"/projects/bravo/code/{digests[0]}", theirs)
    for role in ROLES:
        told = []
        for digest in digests:
            found = ask(world, role, "GET", f"/projects/alpha/code/{digest}")
            asked = {"function": SCRIPT | {"code": digest}}
            previewed, submitted = (
                ask(world, role, "POST", f"/projects/alpha/{path}", asked) for path in ("runs/preview", "runs")
            )
            assert found.status_code in (403, 404), found.text
            assert submitted.status_code in (403, 422), submitted.text
            answers = (found, previewed, submitted)
            told.append([plain(answer, {}).replace(digest, "DIGEST") for answer in answers])
        assert told[0] == told[1], role


@pytest.mark.parametrize("role", LEAST_AND_MOST)
def test_paths_without_a_name_reveal_nothing_of_another_project(
    world: World, operations: list[Operation], role: str
) -> None:
    for item in operations:
        if item.method == "GET" and not item.parameters("path") and not item.is_public:
            for query in queries(item):
                answer = ask(world, role, "GET", item.path + query)
                assert answer.status_code in (200, 403), f"{item.key}{query}: {answer.text}"
                tells_nothing(world, answer, f"{item.path}{query}")


@pytest.mark.parametrize("role", LEAST_AND_MOST)
def test_our_lists_reveal_nothing_of_another_project(world: World, operations: list[Operation], role: str) -> None:
    shared = dict(world.ours) | {"compute_resource": "shared", "template": "common", "cluster": "alpha-cluster"}
    for item in operations:
        if item.method == "GET" and item.parameters("path"):
            paths = {address_of(item, things) for things in (world.ours, shared)}
            for path in sorted(path + query for path in paths for query in (queries(item) if item.is_list else ("",))):
                tells_nothing(world, ask(world, role, "GET", path), path)


def test_usage_count_of_shared_objects_is_visible_to_all(world: World) -> None:
    """A number, and no name: whether something can be deleted depends on it."""
    for role in ROLES:
        for path in ("/compute-resources/shared", "/templates/common"):
            assert world.site.get(path, token=world.tokens[role])["workloads"] == 1, f"{path} as {role}"


def test_user_without_roles_gets_empty_lists(world: World, operations: list[Operation]) -> None:
    stranger = world.site.token_of("stranger")
    for item in operations:
        if item.is_list and not item.parameters("path"):
            answer = world.site.ask("GET", item.path + "?total=true", token=stranger)
            if item.path.endswith(("/audit", "/audit/export")):
                problem_of(answer, 403)
            elif item.path.endswith("/tokens"):
                assert [token["user"] for token in answer.json()["items"]] == ["stranger"]
            else:
                assert answer.json() == {"items": [], "next_cursor": None, "total": 0}, item.key


BODIES: list[tuple[str, str, dict[str, Any]]] = [
    ("POST", "/compute-resources", {"name": "mine", "scope": "project/bravo"}),
    ("POST", "/compute-resources/check", {"name": "mine", "scope": "project/bravo"}),
    ("PATCH", "/compute-resources/alpha-resource", {"scope": "project/bravo"}),
    ("POST", "/compute-resources/alpha-resource/copy", {"name": "mine", "scope": "department/bravo-department"}),
    ("POST", "/compute-resources/alpha-resource/archive", {"successor": "bravo-resource"}),
    ("POST", "/compute-resources/bravo-resource/copy", {"name": "mine"}),
    ("POST", "/templates", {"name": "mine", "scope": "project/bravo"}),
    (
        "POST",
        "/templates",
        {"name": "mine", "scope": "project/alpha", "requirements": {"profile": "bravo-resource", "strict": 1}},
    ),
    ("POST", "/templates", {"name": "mine", "scope": "project/alpha", "requirements": {"profile": "bravo-resource"}}),
    (
        "POST",
        "/templates/check",
        {"name": "mine", "scope": "project/alpha", "requirements": {"profile": "bravo-resource"}},
    ),
    ("PATCH", "/templates/alpha-template", {"requirements": {"profile": "bravo-resource"}}),
    ("POST", "/templates/alpha-template/archive", {"successor": "bravo-template"}),
    ("POST", "/policies/project/alpha/validate", {"defaults": {"profile": "bravo-resource"}}),
    ("PUT", "/policies/project/alpha", {"defaults": {"profile": "bravo-resource"}}),
    ("PUT", "/policies/project/alpha", {"scope": "project/bravo"}),
    ("POST", "/departments", {"name": "mine", "parent": "cluster/bravo-cluster"}),
    ("POST", "/projects", {"name": "mine", "parent": "department/bravo-department"}),
    ("PATCH", "/projects/alpha", {"parent": "department/bravo-department"}),
    ("POST", "/roles", {"subject": "user:me", "role": "viewer", "scope": "project/bravo"}),
    ("POST", "/projects/alpha/runs/preview", {"function": CONTAINER, "profile": "bravo-resource"}),
    ("POST", "/projects/alpha/runs/preview", {"function": CONTAINER, "template": "bravo-template"}),
    ("POST", "/projects/alpha/runs/preview", {"function": CONTAINER, "secrets": ["BRAVO_KEY"]}),
    ("POST", "/projects/alpha/runs/preview", {"function": CONTAINER, "profile": "bravo-former"}),
    ("POST", "/projects/alpha/runs", {"function": CONTAINER, "profile": "bravo-resource"}),
    ("POST", "/projects/alpha/runs", {"function": CONTAINER, "template": "bravo-template"}),
    ("POST", "/projects/alpha/runs", {"function": CONTAINER, "secrets": ["BRAVO_KEY"]}),
    ("POST", "/projects/alpha/runs", {"function": CONTAINER, "plan_token": "{run}." + "0" * 64}),
    ("POST", "/apply", {"documents": [{"kind": "Project", "name": "bravo", "parent": "cluster/alpha-cluster"}]}),
    ("POST", "/apply", {"documents": [{"kind": "Cluster", "name": "bravo-cluster"}]}),
    ("POST", "/apply", {"documents": [{"kind": "Department", "name": "bravo-department"}]}),
    ("POST", "/apply", {"documents": [{"kind": "Policy", "scope": "project/bravo"}]}),
    ("POST", "/apply", {"documents": [{"kind": "ComputeResource", "name": "mine", "scope": "project/bravo"}]}),
    (
        "POST",
        "/apply",
        {"documents": [{"kind": "Policy", "scope": "project/alpha", "defaults": {"profile": "bravo-resource"}}]},
    ),
]


@pytest.mark.parametrize("role", ROLES)
def test_invisible_names_in_a_body_are_reported_like_missing_ones(world: World, role: str) -> None:
    """Nothing of this changes anything: none of the four may do it, or it names what is not there."""
    told = []
    for method, path, body in BODIES:
        there = json.dumps([path, body]).replace("{run}", world.theirs["run"])
        gone = renamed(json.dumps([path, body])).replace("{run}", "0" * 32)
        answers = []
        for text in (there, gone):
            asked, said = json.loads(text)
            dry = {"dry_run": True} if asked == "/apply" else {}
            answers.append(plain(ask(world, role, method, asked, {**said, **dry}), world.theirs))
        if answers[0] != answers[1]:
            told.append(f"{method} {path} {body}: {answers[0]} / {answers[1]}")
    assert told == []


@pytest.mark.parametrize("role", ["editor", "admin"])
def test_name_conflict_reveals_only_that_the_name_is_used(world: World, role: str) -> None:
    """Names are unique on the platform, so the conflict is visible, but not the owner, scope or content."""
    for path, body in (
        ("/compute-resources", {"name": "bravo-resource", "scope": "project/alpha"}),
        ("/templates", {"name": "bravo-template", "scope": "project/alpha"}),
        ("/apply", {"documents": [{"kind": "ComputeResource", "name": "bravo-resource", "scope": "project/alpha"}]}),
        ("/apply", {"documents": [{"kind": "ComputeResource", "name": "bravo-applied", "scope": "project/alpha"}]}),
    ):
        answer = ask(world, role, "POST", path, body)
        problem_of(answer, 409, 422)
        for told in ("project/bravo", "gitops", "bravo-department", world.theirs["compute_resource_id"]):
            assert told not in answer.text, answer.text
        assert "already" in answer.text, answer.text


def test_config_files_of_one_project_do_not_prune_objects_of_another(world: World) -> None:
    document = {"kind": "ComputeResource", "name": "alpha-applied", "scope": "project/alpha"}
    how = {"manager": "gitops", "prune": True, "dry_run": True}
    answer = ask(world, "admin", "POST", "/apply", {"documents": [document], **how})
    assert answer.status_code == 200, answer.text
    assert [change["name"] for change in answer.json()["changes"]] == ["alpha-applied"]


def test_hints_name_only_visible_clusters(world: World) -> None:
    world.site.make("/clusters", {"name": "plain"})
    world.site.make("/projects", {"name": "plain-project", "parent": "cluster/plain"})
    token = world.site.token_of("plain-user", member="project/plain-project")
    asked = {"function": CONTAINER, "resources": {"gpu": {"devices": 1, "memory": "50%"}}}
    for path in ("runs/preview", "runs"):
        answer = world.site.ask("POST", f"/projects/plain-project/{path}", asked, token=token)
        assert "violations" in answer.json(), answer.text
        assert [name for name in (OURS, THEIRS) if name in answer.text] == [], answer.text


def test_policy_validation_considers_only_visible_runs(world: World) -> None:
    """An editor of our project who tries a draft learns nothing of runs elsewhere."""
    for role in ("editor", "admin"):
        answer = ask(world, role, "POST", "/policies/project/alpha/validate", {"rules": {"resources.gpu": {"max": 0}}})
        assert answer.status_code == 200, answer.text
        tells_nothing(world, answer, "validate")


def test_conflict_response_names_only_visible_objects(world: World) -> None:
    for role in ("editor", "admin"):
        answer = ask(world, role, "DELETE", "/compute-resources/alpha-resource")
        assert problem_of(answer, 409)["used_by"]
        tells_nothing(world, answer, "used_by")
    answer = ask(world, "admin", "DELETE", "/projects/alpha")
    assert problem_of(answer, 409)["used_by"]
    tells_nothing(world, answer, "used_by")


def ask(world: World, role: str, method: str, path: str, body: Any = None) -> Response:
    return world.site.ask(method, path, body, token=world.tokens[role], headers=REQUEST_ID)


def addressed(operations: list[Operation], things: Mapping[str, str]) -> Iterator[tuple[Operation, str]]:
    """Every operation with a name in its address, with the addresses under which it reaches the things."""
    for item in operations:
        if not item.parameters("path"):
            continue
        for kind in KINDS if "{kind}" in item.path else ("project",):
            yield item, address_of(item, things, kind)
        if item.path.startswith(("/api/v1/compute-resources/", "/api/v1/templates/")):
            noun = "compute_resource" if "compute-resources" in item.path else "template"
            yield item, address_of(item, {**things, noun: things[f"{noun}_id"]})
            yield item, address_of(item, {**things, "compute_resource": things["former"]})


def queries(item: Operation) -> Iterator[str]:
    """Queries that could leak information: search, sort, count and each filter."""
    yield ""
    if not item.is_list:
        return
    yield from ("?total=true&limit=500", f"?search={THEIRS}&total=true", "?limit=1&total=true")
    for parameter in item.parameters("query"):
        match parameter["name"]:
            case "sort":
                yield from (f"?sort={value}&limit=500" for value in parameter["schema"]["enum"][::5])
            case "archived" | "active" | "paused":
                yield from (f"?{parameter['name']}={value}&total=true&limit=500" for value in ("true", "false"))
            case "search" | "cursor" | "limit" | "total":
                pass
            case name if "time" in parameter["description"]:
                yield f"?{name}=%3E2000-01-01&total=true&limit=500"
            case name if ">=" in parameter["description"]:
                yield f"?{name}=!none&total=true&limit=500"
            case name:
                yield from (f"?{name}={THEIRS}&total=true", f"?{name}=!nothing&total=true&limit=500")


def tells_nothing(world: World, answer: Response, asked: str) -> None:
    """Nothing of the other project is in an answer, and what it counts is what it shows."""
    text = answer.text
    for mark in world.marks:
        assert mark not in text, f"{asked} tells {mark}: {text[max(0, text.find(mark) - 300) :][:600]}"
    told = answer.json() if answer.headers["content-type"] == "application/json" else None
    if isinstance(told, dict) and told.get("total") is not None and "limit=1&" not in asked:
        assert told["total"] == len(told["items"]), asked


def other(text: str) -> str:
    """A similar name or id that does not exist."""
    changed = renamed(text)
    return changed if changed != text else text[::-1]


def renamed(text: str) -> str:
    """Replace the other project by one that does not exist."""
    return text.replace(THEIRS, NOBODYS).replace(THEIRS.upper(), NOBODYS.upper())


def plain(answer: Response, things: Mapping[str, str]) -> str:
    """An answer with nothing in it that only repeats the question."""
    text = answer.text
    for thing in things.values():
        for name in (other(thing), thing):
            text = text.replace(name, "NAME")
    text = text.replace(NOBODYS, THEIRS).replace(NOBODYS.upper(), THEIRS.upper())
    text = re.sub(r"\b[0-9a-f]{32}\b", "ID", text)
    said = json.loads(text) if text else {}
    if isinstance(said, dict):
        said = {name: value for name, value in said.items() if name not in ("token", "manifests")}
    return f"{answer.status_code} {json.dumps(said)}"
