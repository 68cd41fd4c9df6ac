"""Project functions: created by users, or stored with the run that submits them."""

import gzip
import hashlib
import io
import tarfile
from typing import Any

import pytest

from fairlead.errors import Changed, Conflict, Forbidden, NotFound, RequestRejected, RevisionMissing
from fairlead.model.project_objects import FunctionDefinition
from fairlead.model.records import FunctionRecord, PlanRecord
from fairlead.services.runs import runs
from tests.services.worlds import FOREST, LAKE, World, call_as, finding_rules, listing, make_request, names

IMAGE = {"name": "train", "kind": "container", "image": "registry.example/train:1"}
TEXT = "def main(x):\n    return x * x\n"


def define(**fields: Any) -> FunctionDefinition:
    """A function definition."""
    return FunctionDefinition.model_validate(fields)


def store(world: World, name: str = "square", scope: str = FOREST, **fields: Any) -> FunctionRecord:
    """Store a function in a project."""
    return world.services.functions.put(call_as(any_revision=True), scope, name, define(**fields))[0]


def test_function_is_created_listed_shown_and_deleted(world: World) -> None:
    functions, root = world.services.functions, world.root
    created, new = functions.put(root, FOREST, "square", define(text=TEXT, handler="main"))
    assert new
    assert (created.kind, created.revision, created.content["source"], created.content["handler"]) == (
        "python",
        1,
        "main.py",
        "main",
    )
    assert functions.get(root, FOREST, "square") == created
    store(world, "shell", command=["bash", "-c", "true"])
    assert names(functions.page(root, listing(), FOREST).items) == ["shell", "square"]
    assert names(functions.page(root, listing()).items) == ["shell", "square"]
    assert names(functions.page(root, listing(), LAKE).items) == []
    functions.delete(root, FOREST, "square")
    with pytest.raises(NotFound, match="function 'square' does not exist in project/forest"):
        functions.get(root, FOREST, "square")
    assert ("function.delete", "square") in world.audit_actions()


def test_text_of_a_function_is_stored_as_its_source_file(world: World) -> None:
    store(world, text=TEXT, source="model.py")
    [file] = world.services.functions.code(world.root, FOREST, "square").files
    assert (file.path, file.size, file.text) == ("model.py", len(TEXT), TEXT)
    store(world, "shell", command="bash -c true")
    with pytest.raises(NotFound, match="function shell has no code"):
        world.services.functions.code(world.root, FOREST, "shell")


def make_tar(name: str = "main.py", headers: dict[str, str] | None = None) -> bytes:
    """A handcrafted archive with one file."""
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz", format=tarfile.PAX_FORMAT if headers else tarfile.GNU_FORMAT) as tar:
        entry = tarfile.TarInfo(name)
        entry.size, entry.pax_headers = 4, headers or {}
        tar.addfile(entry, io.BytesIO(b"abcd"))
    return buffer.getvalue()


def store_code(world: World, content: bytes) -> None:
    """Store a function with the given bytes as its code."""
    digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
    world.services.stored_code.put(world.root, FOREST, digest, content)
    store(world, source="main.py", code=digest)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"no archive",
        gzip.compress(b"no archive either"),
        gzip.compress(b"") * 100_000,
        make_tar(headers={"GNU.sparse.size": "zz", "GNU.sparse.map": "a,b"}),
        make_tar(headers={"GNU.sparse.major": "1", "GNU.sparse.minor": "0"}),
        make_tar(headers={"size": "-99999"}),
    ],
    ids=["nothing", "text", "zipped", "many", "sparse", "sparse-1.0", "negative"],
)
def test_code_that_is_not_an_archive_is_not_shown(world: World, content: bytes) -> None:
    store_code(world, content)
    with pytest.raises(NotFound, match="cannot be read"):
        world.services.functions.code(world.root, FOREST, "square")


def test_file_name_that_is_not_utf_8_is_escaped(world: World) -> None:
    store_code(world, make_tar("a\udcffb.py"))
    [file] = world.services.functions.code(world.root, FOREST, "square").files
    assert (file.path, file.text) == ("a\\xffb.py", "abcd")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"kind": "container", "image": "a:1", "text": "x"}, [("text", "contradiction")]),
        ({"text": "x", "code": f"sha256:{64 * '0'}"}, [("text", "contradiction")]),
        ({"code": f"sha256:{64 * '0'}", "source": "a.py"}, [("code", "unknown_code")]),
        ({"text": "def main(:"}, [("text", "python")]),
        ({"text": TEXT, "handler": "mian"}, [("handler", "python")]),
        ({"text": TEXT, "handler": "other:main"}, [("handler", "handler")]),
        ({"text": ""}, [("text", "required")]),
        ({"text": TEXT, "handler": "main", "source": "main"}, [("source", "path")]),
        ({"text": TEXT, "source": f"{300 * 'x'}.py"}, [("source", "path")]),
        ({"command": []}, [("text", "required")]),
    ],
)
def test_contradictory_or_unknown_fields_are_rejected(
    world: World, fields: dict[str, Any], expected: list[tuple[str, str]]
) -> None:
    with pytest.raises((RequestRejected, ValueError)) as caught:
        store(world, **fields)
    if isinstance(caught.value, RequestRejected):
        assert [(item.path, item.rule) for item in caught.value.violations] == expected


def test_replacing_a_function_requires_its_revision(world: World) -> None:
    store(world, text=TEXT)
    functions = world.services.functions
    with pytest.raises(RevisionMissing):
        functions.put(world.root, FOREST, "square", define(text="x = 1"))
    with pytest.raises(Changed):
        functions.put(call_as(revision=7), FOREST, "square", define(text="x = 1"))
    after, new = functions.put(call_as(revision=1), FOREST, "square", define(text="x = 1"))
    assert (after.revision, new) == (2, False)


def test_only_members_store_functions_and_strangers_see_none(world: World) -> None:
    store(world, text=TEXT)
    viewer = world.grant("vera", "viewer", FOREST)
    assert world.services.functions.get(viewer, FOREST, "square").name == "square"
    with pytest.raises(Forbidden):
        world.services.functions.put(viewer, FOREST, "other", define(text=TEXT))
    with pytest.raises(Forbidden):
        world.services.functions.delete(viewer, FOREST, "square")
    stranger = world.grant("sam", "viewer", LAKE)
    assert world.services.functions.page(stranger, listing()).items == []
    with pytest.raises(NotFound):
        world.services.functions.code(stranger, FOREST, "square")


def test_submitted_function_is_stored_and_can_be_used_by_name(world: World) -> None:
    world.submit(function=IMAGE)
    stored = world.services.functions.get(world.root, FOREST, "train")
    assert (stored.content, stored.runs, stored.created_by) == (
        {"kind": "container", "image": IMAGE["image"]},
        1,
        "root",
    )
    run = world.submit(function="train")
    with world.store.reading() as tx:
        plan = tx.get(PlanRecord, id=run.id)
    assert plan is not None
    assert plan.request["function"] == IMAGE
    second = world.services.functions.get(world.root, FOREST, "train")
    assert (second.revision, second.runs, second.last_run_at) == (1, 2, run.created_at)


def test_last_submitted_function_is_stored(world: World) -> None:
    world.submit(function=IMAGE)
    world.submit(function=IMAGE | {"image": "registry.example/train:2"})
    stored = world.services.functions.get(world.root, FOREST, "train")
    assert (stored.revision, stored.content["image"]) == (2, "registry.example/train:2")
    assert [entry for entry in world.audit_actions() if entry[1] == "train"] == [
        ("function.create", "train"),
        ("function.edit", "train"),
    ]


def test_rejected_run_stores_no_function(world: World) -> None:
    with pytest.raises(RequestRejected):
        world.submit(function=IMAGE, profile="nothing-of-the-kind")
    assert world.services.functions.page(world.root, listing(), FOREST).items == []


def test_preview_resolves_stored_functions(world: World) -> None:
    world.submit(function=IMAGE)
    plan = world.preview(function="train")
    assert [item["value"] for item in plan["settings"] if item["path"] == "function.image"] == [IMAGE["image"]]
    assert finding_rules(plan["violations"]) == []


def test_plan_token_is_invalid_after_its_function_changed(world: World) -> None:
    world.submit(function=IMAGE)
    token = world.preview(function="train")["token"]
    assert world.submit(function="train", plan_token=token).function == "train"
    token = world.preview(function="train")["token"]
    store(world, "train", kind="container", image="registry.example/train:2")
    with pytest.raises(Exception, match="differs from the preview"):
        world.submit(function="train", plan_token=token)


@pytest.mark.every_store
def test_functions_follow_the_name_of_their_project_and_are_deleted_with_it(world: World) -> None:
    store(world, text=TEXT)
    world.services.scopes.edit(world.root, FOREST, {"name": "wood"})
    assert world.services.functions.get(world.root, "project/wood", "square").scope == "project/wood"
    world.services.scopes.delete(world.root, "project/wood")
    assert world.services.functions.page(world.root, listing()).items == []


def test_fit_check_resolves_stored_functions(world: World) -> None:
    world.submit(function=IMAGE)
    by_name, inline = (
        world.services.fit_checks.check(world.root, "forest", make_request(function=function))
        for function in ("train", IMAGE)
    )
    assert by_name == inline


@pytest.mark.every_store
def test_run_is_stored_even_if_its_function_cannot_be(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise Conflict("not now", "try again")

    monkeypatch.setattr(runs, "store_function", fail)
    run = world.submit(function=IMAGE)
    assert world.services.runs.get(world.root, run.id) == run
    assert world.services.functions.page(world.root, listing(), FOREST).items == []
    monkeypatch.undo()
    world.submit(function=IMAGE)
    assert names(world.services.functions.page(world.root, listing(), FOREST).items) == ["train"]
