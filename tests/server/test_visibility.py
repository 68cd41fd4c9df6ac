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
OURS, THEIRS, MISSING = "alpha", "bravo", "braxo"


@dataclass(frozen=True)
class World:
    """Two projects with objects of every kind, and tokens for users with a role in the first one."""

    site: Site
    ours: Mapping[str, str]
    theirs: Mapping[str, str]
    tokens: Mapping[str, str]

    @property
    def marks(self) -> list[str]:
        """Names and IDs from the second project, which must never appear."""
        return [THEIRS, THEIRS.upper(), *self.theirs.values()]


@pytest.fixture(scope="module")
def world(common_site: Site) -> World:
    ours, theirs = fill(common_site, OURS), fill(common_site, THEIRS)
    common_site.post("/compute-resources", {"name": "shared", "requirements": REQUIREMENTS})
    common_site.post("/templates", {"name": "common", "requirements": {"profile": "shared"}})
    template = {"name": "bravo-on-shared", "scope": "project/bravo", "requirements": {"profile": "shared"}}
    common_site.post("/templates", template)
    common_site.post("/projects/bravo/runs", {"function": CONTAINER, "template": "common"})
    for name in ("alpha-applied", "bravo-applied"):
        document = {"kind": "ComputeResource", "name": name, "scope": f"project/{name.partition('-')[0]}"}
        common_site.post("/apply", {"documents": [document], "manager": "gitops"})
    tokens = {role: common_site.token_of(f"alpha-{role}", **{role: f"project/{OURS}"}) for role in ROLES}
    return World(common_site, ours, theirs, tokens)


def test_generated_paths_find_objects_of_our_project(world: World, operations: list[Operation]) -> None:
    """Ensures that a 404 in the tests below means an invisible object, not a wrong path."""
    paths = [(item, path) for item, path in with_paths(operations, world.ours) if item.method == "GET"]
    assert len(paths) > 20
    for _, path in paths:
        response = world.site.request("GET", path.replace("new=2", "new=1"), token=world.tokens["admin"])
        assert response.status_code == 200 or "use its new name: alpha-resource" in response.text, (
            f"{path}: {response.text}"
        )


@pytest.mark.parametrize("role", ROLES)
def test_objects_of_another_project_are_not_found(world: World, operations: list[Operation], role: str) -> None:
    for item, path in with_paths(operations, world.theirs):
        response = send(world, role, item.method, path, body_of(item))
        problem_of(response, 404)
        text = response.text.replace(path.partition("?")[0], "")
        # The requested name may be repeated; nothing else from the other project may appear.
        requested = {world.theirs[name] for name in world.theirs if world.theirs[name] in path}
        for mark in world.theirs.values():
            assert mark in requested or mark not in text or any(mark in name for name in requested), (
                f"{item.key}: {text}"
            )


@pytest.mark.parametrize("role", ROLES)
def test_invisible_objects_are_reported_like_missing_ones(world: World, operations: list[Operation], role: str) -> None:
    missing = {name: missing_name(text) for name, text in world.theirs.items()}
    for (item, existing_path), (_, missing_path) in zip(
        with_paths(operations, world.theirs), with_paths(operations, missing), strict=True
    ):
        responses = [send(world, role, item.method, path, body_of(item)) for path in (existing_path, missing_path)]
        normalized = [normalize(response, world.theirs) for response in responses]
        assert normalized[0] == normalized[1], item.key


@pytest.mark.parametrize("role", ROLES)
def test_object_of_another_project_is_not_found_in_ours(world: World, operations: list[Operation], role: str) -> None:
    mixed = dict(world.theirs) | {"project": OURS}
    missing = {name: missing_name(text) for name, text in mixed.items()} | {"project": OURS}
    for item in operations:
        if "/projects/{project}/" in item.path and "{name}" in item.path:
            responses = [
                send(world, role, item.method, address_of(item, objects), body_of(item))
                for objects in (mixed, missing)
                if item.method != "PUT"  # members may use any name in their project
            ]
            assert len({normalize(response, mixed) for response in responses}) <= 1, item.key
            assert all(response.status_code in (403, 404) for response in responses), item.key


def test_code_of_another_project_is_not_found(world: World) -> None:
    """Knowing a digest or the content of code does not reveal whether it is stored."""
    theirs, unused = (b"code of bravo", b"unused code")
    digests = [f"sha256:{hashlib.sha256(code).hexdigest()}" for code in (theirs, unused)]
    world.site.put(f"/projects/bravo/code/{digests[0]}", theirs)
    for role in ROLES:
        results = []
        for digest in digests:
            lookup = send(world, role, "GET", f"/projects/alpha/code/{digest}")
            request = {"function": SCRIPT | {"code": digest}}
            previewed, submitted = (
                send(world, role, "POST", f"/projects/alpha/{path}", request) for path in ("runs/preview", "runs")
            )
            assert lookup.status_code in (403, 404), lookup.text
            assert submitted.status_code in (403, 422), submitted.text
            responses = (lookup, previewed, submitted)
            results.append([normalize(response, {}).replace(digest, "DIGEST") for response in responses])
        assert results[0] == results[1], role


@pytest.mark.parametrize("role", LEAST_AND_MOST)
def test_paths_without_a_name_reveal_nothing_of_another_project(
    world: World, operations: list[Operation], role: str
) -> None:
    for item in operations:
        if item.method == "GET" and not item.parameters("path") and not item.is_public:
            for query in queries(item):
                response = send(world, role, "GET", item.path + query)
                assert response.status_code in (200, 403), f"{item.key}{query}: {response.text}"
                check_reveals_nothing(world, response, f"{item.path}{query}")


@pytest.mark.parametrize("role", LEAST_AND_MOST)
def test_our_lists_reveal_nothing_of_another_project(world: World, operations: list[Operation], role: str) -> None:
    shared = dict(world.ours) | {"compute_resource": "shared", "template": "common", "cluster": "alpha-cluster"}
    for item in operations:
        if item.method == "GET" and item.parameters("path"):
            paths = {address_of(item, objects) for objects in (world.ours, shared)}
            for path in sorted(path + query for path in paths for query in (queries(item) if item.is_list else ("",))):
                check_reveals_nothing(world, send(world, role, "GET", path), path)


def test_usage_count_of_shared_objects_is_visible_to_all(world: World) -> None:
    """Only the number is visible, because it decides whether an object can be deleted."""
    for role in ROLES:
        for path in ("/compute-resources/shared", "/templates/common"):
            assert world.site.get(path, token=world.tokens[role])["workloads"] == 1, f"{path} as {role}"


def test_user_without_roles_gets_empty_lists(world: World, operations: list[Operation]) -> None:
    stranger = world.site.token_of("stranger")
    for item in operations:
        if item.is_list and not item.parameters("path"):
            response = world.site.request("GET", item.path + "?total=true", token=stranger)
            if item.path.endswith(("/audit", "/audit/export")):
                problem_of(response, 403)
            elif item.path.endswith("/tokens"):
                assert [token["user"] for token in response.json()["items"]] == ["stranger"]
            else:
                assert response.json() == {"items": [], "next_cursor": None, "total": 0}, item.key


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
    """No request changes anything: the role does not permit it, or it names an object that does not exist."""
    differences = []
    for method, path, body in BODIES:
        existing = json.dumps([path, body]).replace("{run}", world.theirs["run"])
        missing = renamed(json.dumps([path, body])).replace("{run}", "0" * 32)
        responses = []
        for text in (existing, missing):
            sent_path, sent_body = json.loads(text)
            dry = {"dry_run": True} if sent_path == "/apply" else {}
            responses.append(normalize(send(world, role, method, sent_path, {**sent_body, **dry}), world.theirs))
        if responses[0] != responses[1]:
            differences.append(f"{method} {path} {body}: {responses[0]} / {responses[1]}")
    assert differences == []


@pytest.mark.parametrize("role", ["editor", "admin"])
def test_name_conflict_reveals_only_that_the_name_is_used(world: World, role: str) -> None:
    """Names are unique on the platform, so the conflict is visible, but not the owner, scope or content."""
    for path, body in (
        ("/compute-resources", {"name": "bravo-resource", "scope": "project/alpha"}),
        ("/templates", {"name": "bravo-template", "scope": "project/alpha"}),
        ("/apply", {"documents": [{"kind": "ComputeResource", "name": "bravo-resource", "scope": "project/alpha"}]}),
        ("/apply", {"documents": [{"kind": "ComputeResource", "name": "bravo-applied", "scope": "project/alpha"}]}),
    ):
        response = send(world, role, "POST", path, body)
        problem_of(response, 409, 422)
        for secret in ("project/bravo", "gitops", "bravo-department", world.theirs["compute_resource_id"]):
            assert secret not in response.text, response.text
        assert "is not available" in response.text, response.text


@pytest.mark.parametrize("role", ["editor", "admin"])
def test_name_conflict_is_the_same_for_visible_and_invisible_objects(world: World, role: str) -> None:
    for path, noun in (("/compute-resources", "resource"), ("/templates", "template")):
        responses = [
            send(world, role, "POST", path, {"name": f"{project}-{noun}", "scope": "project/alpha"})
            for project in (OURS, THEIRS)
        ]
        assert responses[0].text.replace(OURS, THEIRS) == responses[1].text
        assert responses[0].status_code == responses[1].status_code == 409
    problem = problem_of(send(world, "admin", "PATCH", "/projects/alpha", {"name": THEIRS}), 409)
    assert (problem["detail"], problem["hint"]) == ("project name bravo is not available", "choose another name")


def test_config_files_of_one_project_do_not_prune_objects_of_another(world: World) -> None:
    document = {"kind": "ComputeResource", "name": "alpha-applied", "scope": "project/alpha"}
    options = {"manager": "gitops", "prune": True, "dry_run": True}
    response = send(world, "admin", "POST", "/apply", {"documents": [document], **options})
    assert response.status_code == 200, response.text
    assert [change["name"] for change in response.json()["changes"]] == ["alpha-applied"]


def test_hints_name_only_visible_clusters(world: World) -> None:
    world.site.post("/clusters", {"name": "plain"})
    world.site.post("/projects", {"name": "plain-project", "parent": "cluster/plain"})
    token = world.site.token_of("plain-user", member="project/plain-project")
    request = {"function": CONTAINER, "resources": {"gpu": {"devices": 1, "memory": "50%"}}}
    for path in ("runs/preview", "runs"):
        response = world.site.request("POST", f"/projects/plain-project/{path}", request, token=token)
        assert "violations" in response.json(), response.text
        assert [name for name in (OURS, THEIRS) if name in response.text] == [], response.text


def test_policy_validation_considers_only_visible_runs(world: World) -> None:
    """An editor who validates a draft learns nothing about other projects' runs."""
    for role in ("editor", "admin"):
        response = send(
            world, role, "POST", "/policies/project/alpha/validate", {"rules": {"resources.gpu": {"max": 0}}}
        )
        assert response.status_code == 200, response.text
        check_reveals_nothing(world, response, "validate")


def test_conflict_response_names_only_visible_objects(world: World) -> None:
    for role in ("editor", "admin"):
        response = send(world, role, "DELETE", "/compute-resources/alpha-resource")
        assert problem_of(response, 409)["used_by"]
        check_reveals_nothing(world, response, "used_by")
    response = send(world, "admin", "DELETE", "/projects/alpha")
    assert problem_of(response, 409)["used_by"]
    check_reveals_nothing(world, response, "used_by")


def send(world: World, role: str, method: str, path: str, body: Any = None) -> Response:
    return world.site.request(method, path, body, token=world.tokens[role], headers=REQUEST_ID)


def with_paths(operations: list[Operation], objects: Mapping[str, str]) -> Iterator[tuple[Operation, str]]:
    """Every operation with path parameters, with the paths that lead to the objects."""
    for item in operations:
        if not item.parameters("path"):
            continue
        for kind in KINDS if "{kind}" in item.path else ("project",):
            yield item, address_of(item, objects, kind)
        if item.path.startswith(("/api/v1/compute-resources/", "/api/v1/templates/")):
            noun = "compute_resource" if "compute-resources" in item.path else "template"
            yield item, address_of(item, {**objects, noun: objects[f"{noun}_id"]})
            yield item, address_of(item, {**objects, "compute_resource": objects["former"]})


def queries(item: Operation) -> Iterator[str]:
    """Queries that could leak information: search, sort, count, and each filter."""
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


def check_reveals_nothing(world: World, response: Response, path: str) -> None:
    """Check that a response contains nothing from the other project, and that its total matches its items."""
    text = response.text
    for mark in world.marks:
        assert mark not in text, f"{path} reveals {mark}: {text[max(0, text.find(mark) - 300) :][:600]}"
    page = response.json() if response.headers["content-type"] == "application/json" else None
    if isinstance(page, dict) and page.get("total") is not None and "limit=1&" not in path:
        assert page["total"] == len(page["items"]), path


def missing_name(text: str) -> str:
    """A similar name or ID that does not exist."""
    changed = renamed(text)
    return changed if changed != text else text[::-1]


def renamed(text: str) -> str:
    """Replace the other project with one that does not exist."""
    return text.replace(THEIRS, MISSING).replace(THEIRS.upper(), MISSING.upper())


def normalize(response: Response, objects: Mapping[str, str]) -> str:
    """The response without text that only repeats the request."""
    text = response.text
    for value in objects.values():
        for name in (missing_name(value), value):
            text = text.replace(name, "NAME")
    text = text.replace(MISSING, THEIRS).replace(MISSING.upper(), THEIRS.upper())
    text = re.sub(r"\b[0-9a-f]{32}\b", "ID", text)
    body = json.loads(text) if text else {}
    if isinstance(body, dict):
        body = {name: content for name, content in body.items() if name not in ("token", "manifests")}
    return f"{response.status_code} {json.dumps(body)}"
