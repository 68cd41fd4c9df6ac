"""Invalid bodies: a clear 4xx problem, never 5xx, without delay."""

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from httpx2 import Response

from tests.server.samples import address_of, body_of, some
from tests.server.sites import Operation, Site, paths_of, problem_of, within

MEGABYTE = 1024 * 1024
LONG = "n" * 10_000


def chunks(size: int) -> Iterator[bytes]:
    for _ in range(size // 65536):
        yield b" " * 65536


def mapping(size: int, extra: bytes = b"") -> bytes:
    return b"{" + b",".join(b'"k%d":1' % number for number in range(size)) + extra + b"}"


TEXTS: dict[str, tuple[Any, int]] = {
    "nothing": (b"", 400),
    "spaces": (b"   ", 400),
    "half": (b'{"name": ', 400),
    "two": (b"{}{}", 400),
    "a comment": (b'{"name": "x" /* y */}', 400),
    "single quotes": (b"{'name': 'x'}", 400),
    "a list": (b"[]", 422),
    "a text": (b'"x"', 422),
    "a number": (b"7", 422),
    "null": (b"null", 422),
    "true": (b"true", 422),
    "a key twice": (b'{"name": "x", "name": "y"}', 400),
    "a key twice, further down": (b'{"name": "x", "requirements": {"envs": {"A": "1", "A": "2"}}}', 400),
    "not a number": (b'{"name": "x", "revision": NaN}', 400),
    "infinite": (b'{"name": "x", "revision": -Infinity}', 400),
    "too large for a float": (b'{"name": "x", "revision": 1e999}', 422),
    "a number of 5,000 digits": (b'{"name": "x", "revision": ' + b"9" * 5000 + b"}", 400),
    "a number of 900 digits": (b'{"name": "x", "revision": ' + b"9" * 900 + b"}", 422),
    "a long fraction": (b'{"name": "x", "requirements": {"resources": {"cpu": 0.' + b"1" * 100_000 + b"}}}", 422),
    "deep lists": (b"[" * 100_000, 400),
    "deep lists, closed": (b"[" * 100_000 + b"]" * 100_000, 400),
    "deep mappings": (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, 400),
    "101 deep": (b'{"name":' + b"[" * 101 + b"]" * 101 + b"}", 400),
    "NUL": (b'{"name": "a\\u0000b"}', 400),
    "NUL as it is": (b'{"name": "a\x00b"}', 400),
    "NUL in a key": (b'{"na\\u0000me": "b"}', 400),
    "half a character": (b'{"name": "x", "description": "\\ud800"}', 400),
    "the other half": (b'{"name": "x", "description": "\\udc00"}', 400),
    "half a character in a key": (b'{"\\udfff": "x"}', 400),
    "no UTF-8": (b'{"name": "\xff\xfe"}', 400),
    "half a character in UTF-8": (b'{"name": "\xed\xa0\x80"}', 400),
    "Latin-1": ('{"name": "ü"}'.encode("latin-1"), 400),
    "UTF-16": ('{"name": "x"}'.encode("utf-16"), 400),
    "a mark at the beginning": (b"\xef\xbb\xbf" + b'{"name": "x"}', 400),
    "10 MB": (b" " * 10 * MEGABYTE, 413),
    "a bit over 1 MB": (b'{"name": "' + b"x" * MEGABYTE + b'"}', 413),
    "60,000 keys and one twice": (mapping(60_000, b',"k59999":2'), 400),
    "9,000 keys and one twice": (mapping(9_000, b',"k8999":2'), 400),
    "80,000 unknown fields": (mapping(80_000), 400),
    "100,000 entries": (b'{"name":"x","requirements":{"secrets":[' + b",".join([b"1"] * 100_000) + b"]}}", 400),
    "9,000 unknown fields": (mapping(9_000), 422),
    "9,000 wrong entries": (b'{"name":"x","requirements":{"secrets":[' + b",".join([b"1"] * 9_000) + b"]}}", 422),
    "9,000 wrong variables": (b'{"name":"x","requirements":{"envs":' + mapping(9_000) + b"}}", 422),
    "9,000 wrong volumes": (b'{"name":"x","requirements":{"volumes":' + mapping(9_000) + b"}}", 422),
    "many of many": (b'{"name":"x","requirements":[' + b",".join([mapping(900)] * 80) + b"]}", 422),
}


@pytest.mark.parametrize("name", TEXTS)
def test_invalid_body_is_rejected_quickly(common_site: Site, name: str) -> None:
    text, status = TEXTS[name]
    with within(3):
        response = common_site.request("POST", "/compute-resources", content=text, headers=JSON)
    problem = problem_of(response, status)
    assert len(response.content) < 200_000, f"{len(response.content):,} bytes of response"
    assert len(problem["detail"]) < 1000


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize("length", [b"10485760", b"9" * 30, b"9" * 5000])
def test_oversized_content_length_is_rejected_unread(common_site: Site, length: bytes) -> None:
    with within(3):
        response = common_site.request(
            "POST", "/compute-resources", content=b"{}", headers={"Content-Length": length, **JSON}
        )
    problem_of(response, 400, 413)


def test_chunked_body_is_rejected_as_soon_as_it_is_too_large(common_site: Site) -> None:
    with within(3):
        response = common_site.request("POST", "/compute-resources", content=chunks(10 * MEGABYTE), headers=JSON)
    assert problem_of(response, 413)["code"] == "too_large"


def test_config_files_can_be_larger_up_to_a_limit(common_site: Site) -> None:
    for content in (b" " * 10 * MEGABYTE, chunks(10 * MEGABYTE)):
        with within(3):
            response = common_site.request("POST", "/apply", content=content, headers=JSON)
        problem_of(response, 413)
    documents = [{"kind": "ComputeResource", "name": f"n{n}", "wrong": 1} for n in range(9_000)]
    with within(3):  # all invalid
        response = common_site.request("POST", "/apply", {"documents": documents})
    problem_of(response, 422)
    assert len(response.content) < 200_000


@pytest.mark.parametrize(
    "media", ["text/plain", "application/x-www-form-urlencoded", "application/xml", "json", "", "ü"]
)
def test_only_json_is_accepted(common_site: Site, media: str) -> None:
    response = common_site.request(
        "POST", "/departments", content=b"{}", headers={"Content-Type": media.encode("latin-1")}
    )
    assert "Content-Type" in problem_of(response, 415)["hint"]


@pytest.mark.parametrize("media", ["application/json", "application/json; charset=utf-8", "Application/JSON"])
def test_json_media_type_variants_are_accepted(common_site: Site, media: str) -> None:
    response = common_site.request("POST", "/departments/check", content=b"{}", headers={"Content-Type": media})
    problem_of(response, 404, 405)
    response = common_site.request("POST", "/departments", content=b"{}", headers={"Content-Type": media})
    assert paths_of(problem_of(response, 422)) == ["name"]


# Bodies as data

INVALID_VALUES: tuple[Any, ...] = (
    None, True, -1, 1.5, 10**30, "", " ", "x y", "\u202e", "a" * 10_000, [], [1], [[]], {}, {"a": 1},
    "../..", "' OR 1=1",
)  # fmt: skip


def test_value_of_the_wrong_type_is_rejected_in_every_field(
    common_site: Site, operations: list[Operation], objects: dict[str, str]
) -> None:
    """Every field of every body with values of every type: invalid values are reported with their path."""
    schemas = common_site.document["components"]["schemas"]
    rounds = itertools.count()
    for item in operations:
        if item.body is None:
            continue
        valid = body_of(item) or {}
        for field in schemas[item.body["$ref"].rpartition("/")[2]]["properties"]:
            for value in some(INVALID_VALUES, next(rounds), 5):
                body = {**valid, field: value, **({"dry_run": True} if item.path.endswith("/apply") else {})}
                with within(3):
                    response = common_site.request(
                        item.method, address_of(item, objects), body, headers={"If-Match": "999"}
                    )
                if response.status_code >= 300:
                    problem = problem_of(response)
                    if response.status_code == 422:
                        assert paths_of(problem), f"{item.key} {field}={value!r}"
                        assert len(response.content) < 20_000, f"{item.key} {field}: {response.text[:2000]}"
                _undo(common_site, item, response)


# Errors about these do not contain the value, which may be a secret.
SECRET_BODIES = {"PUT /projects/{project}/secrets/{name}", "POST /sessions", "PUT /clusters/{name}/kubeconfig"}


def test_body_with_a_secret_is_not_repeated(common_site: Site, objects: dict[str, str]) -> None:
    for method, path, field in (
        ("PUT", "/projects/alpha/secrets/S", "value"),
        ("PUT", "/clusters/alpha-cluster/kubeconfig", "kubeconfig"),
        ("POST", "/sessions", "token"),
    ):
        for body in ({"planted": "planted"}, {field: ["planted"]}, "planted", ["planted"]):
            response = common_site.request(method, path, body)
            assert field in problem_of(response, 422)["violations"][0]["hint"]
            assert "planted" not in response.text


def test_unknown_field_is_rejected_with_the_nearest_field(
    common_site: Site, operations: list[Operation], objects: dict[str, str]
) -> None:
    schemas = common_site.document["components"]["schemas"]
    for item in operations:
        if item.body is None or item.key in SECRET_BODIES:
            continue
        for field in schemas[item.body["$ref"].rpartition("/")[2]]["properties"]:
            if len(field) < 5:
                continue
            typo = field[:2] + field[3:]
            response = common_site.request(item.method, address_of(item, objects), {**(body_of(item) or {}), typo: 1})
            problem = problem_of(response, 422)
            assert paths_of(problem) == [typo], f"{item.key}: {problem}"
            (violation,) = problem["violations"]
            assert field in violation["hint"], f"{item.key}: {violation}"


def test_all_errors_of_a_body_are_reported_together(common_site: Site) -> None:
    body = {"name": "-", "scope": "nowhere", "requirements": {"resources": {"cpu": "x", "gpu": 1.5}}, "color": "red"}
    problem = problem_of(common_site.request("POST", "/compute-resources", body), 422)
    expected = {"name", "scope", "requirements.resources.cpu.requests", "requirements.resources.gpu.devices", "color"}
    assert set(paths_of(problem)) == expected


def test_invalid_token_name_is_not_reported_as_a_user_name(common_site: Site) -> None:
    for name, message in (("", "invalid token name ''"), ("a\nb", "invalid token name 'a\\nb'")):
        (violation,) = problem_of(common_site.request("POST", "/tokens", {"name": name}), 422)["violations"]
        assert (violation["path"], violation["message"]) == ("name", message)
    (violation,) = problem_of(common_site.request("POST", "/tokens", {"name": "a", "user": ""}), 422)["violations"]
    assert (violation["path"], violation["message"]) == ("user", "invalid user name ''")


@pytest.mark.parametrize("name", [LONG, "", " ", ".", "..", "a/b", "a\nb", "ä", "a b", "-a", "%00", "a'b", 'a"b'])
def test_name_that_cannot_be_used_in_a_url_is_rejected(common_site: Site, name: str) -> None:
    for path, body in (
        ("/compute-resources", {"name": name}),
        ("/templates", {"name": name}),
        ("/projects/default/volumes", {"name": name, "size": "1Gi"}),
    ):
        problem = problem_of(common_site.request("POST", path, body), 422)
        assert paths_of(problem) == ["name"]
        assert len(problem["violations"][0]["message"]) < 300
    for path in ("/clusters", "/departments", "/projects"):
        assert "name" in paths_of(problem_of(common_site.request("POST", path, {"name": name}), 422))


def _undo(site: Site, item: Operation, response: Response) -> None:
    """Delete the object that a valid value created."""
    if response.status_code == 201:
        created = msgspec.json.decode(response.content)
        name = created.get("name", created.get("id"))
        if "/copy" in item.path:
            site.request("DELETE", f"{item.path.partition('/{')[0]}/{name}")
        elif item.path.endswith(("/roles", "/tokens")):
            site.request("DELETE", f"{item.path}/{created['id']}")
        elif not item.path.endswith("/runs"):
            site.request("DELETE", f"{item.path.replace('{project}', 'alpha')}/{name}")
