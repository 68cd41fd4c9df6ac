"""Invalid URLs and headers: a clear 4xx problem, never 5xx, without delay."""

import re

import pytest

from tests.server.samples import address_of, body_of, some
from tests.server.sites import API, Operation, Site, paths_of, problem_of, within

LONG = "n" * 10_000


MALICIOUS_VALUES = (
    "' OR 1=1 --", "\"; DROP TABLE places; --", "%", "_", "*", "../..", "..%2f..", "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
    "%252e%252e%252f", "${jndi:ldap://x}", "{{7*7}}", "<script>alert(1)</script>", "\r\nSet-Cookie: a=b", "\\x00",
    "%ff%fe", "%ed%a0%80", "%c0%80", "\u202e", "\U0001f600", "null", "none", "undefined", "-1", "0", "1e9", "true",
    "999999999999999999999999", "a" * 10_000, ",", ",,,", "!", "=", ">=", "<", ">none", "!none", "2026-13-45",
    "%00", "a%00b",
)  # fmt: skip


def test_malicious_path_segments_find_nothing(common_site: Site, operations: list[Operation]) -> None:
    for round_number, item in enumerate(operations):
        if not item.parameters("path"):
            continue
        for value in some(MALICIOUS_VALUES, round_number, 8):
            path = quote_value(value).join(re.split(r"\{\w+\}", item.path))
            with within(3):
                response = common_site.request(item.method, path, body_of(item))
            problem = problem_of(response, 400, 404, 405, 409, 414, 422)
            assert len(problem["detail"]) < 1000, f"{item.key} repeats {len(problem['detail'])} characters"


@pytest.mark.every_store
def test_malicious_query_values_do_no_harm(
    filled_site: Site, operations: list[Operation], objects: dict[str, str]
) -> None:
    active_id, ended_id = (filled_site.get(f"/runs?active={active}")["items"][0]["id"] for active in ("true", "false"))
    objects = {**objects, "run": active_id, "ended": ended_id}
    queries = [(item, parameter["name"]) for item in operations for parameter in item.parameters("query")]
    for round_number, (item, name) in enumerate(queries):
        if item.method != "GET":
            continue
        path = address_of(item, objects).partition("?")[0]
        for value in some(MALICIOUS_VALUES, round_number, 3):
            with within(3):
                response = filled_site.request("GET", f"{path}?{name}={quote_value(value)}")
            if response.status_code != 200:
                problem_of(response, 400, 403, 404, 422)


@pytest.mark.every_store
def test_malicious_search_text_is_matched_literally(filled_site: Site) -> None:
    for value in MALICIOUS_VALUES:
        response = filled_site.request("GET", f"/compute-resources?search={quote_value(value)}")
        assert response.status_code != 200 or response.json()["items"] == [], value


def test_unknown_query_parameter_is_rejected_everywhere(
    common_site: Site, operations: list[Operation], objects: dict[str, str]
) -> None:
    for item in operations:
        path = address_of(item, objects)
        path += ("&" if "?" in path else "?") + "color=red"
        problem = problem_of(common_site.request(item.method, path, body_of(item)), 422)
        assert paths_of(problem) == ["color"], item.key


@pytest.mark.parametrize(
    ("query", "path", "hint"),
    [
        ("logs?cursor=none", "cursor", "write an integer"),
        ("logs?follow=maybe", "follow", "write true or false"),
        ("logs?format=xml", "format", "write 'json' or 'raw'"),
        ("logs?cursor=-1", "cursor", "see the parameters in /api/v1/openapi.json"),
        ("usage?=1", "''", "known: attempt"),
    ],
)
def test_invalid_query_parameter_gives_a_hint(
    common_site: Site, objects: dict[str, str], query: str, path: str, hint: str
) -> None:
    problem = problem_of(common_site.request("GET", f"/runs/{objects['ended']}/{query}"), 422)
    assert [(violation["path"], violation["hint"]) for violation in problem["violations"]] == [(path, hint)]


def test_too_long_url_is_rejected(common_site: Site) -> None:
    for query, status in (
        ("search=" + "x" * 20_000, 414),
        ("&".join(f"p{number}=1" for number in range(2000)), 422),
        ("&".join(["name=a"] * 2300), 422),
        ("&".join(["scope=a,b,c,d,e,f,g,h"] * 600), 422),
        ("search=a&" * 1000, 422),
        ("x" * 15_000, 422),
    ):
        with within(3):
            response = common_site.request("GET", f"/compute-resources?{query}")
        problem_of(response, status)
        assert len(response.content) < 200_000, f"{query[:40]}: {len(response.content):,} bytes"


@pytest.mark.every_store
def test_many_filters_do_not_break_the_database(filled_site: Site) -> None:
    for query in ("&".join(["name=a"] * 2300), "scope=" + ",".join(["a"] * 490), "&".join(["gpu_devices=%3E=1"] * 900)):
        with within(3):
            response = filled_site.request("GET", f"/compute-resources?{query}&total=true")
        assert response.status_code == 200 or problem_of(response, 400, 422)


@pytest.mark.parametrize(
    "path", ["/compute-resources/", "/nothing", "/compute-resources/x/y/z", "//me", "/me/", "/", "/api"]
)
def test_unknown_path_is_not_found(common_site: Site, path: str) -> None:
    for method in ("GET", "POST", "DELETE"):
        problem_of(common_site.request(method, API + path), 404)


def test_unsupported_method_lists_the_supported_ones(common_site: Site, operations: list[Operation]) -> None:
    all_operations = [*operations, Operation("GET", f"{API}/openapi.json", {})]
    for path in sorted({re.sub(r"\{\w+\}", "x", item.path) for item in all_operations}):
        # `/compute-resources/check` is an operation, and also the path of a compute resource named check.
        methods = {item.method for item in all_operations if re.fullmatch(re.sub(r"\{\w+\}", "[^/]+", item.path), path)}
        for method in {"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} - methods:
            response = common_site.client.request(method, path)
            problem = problem_of(response, 405)
            assert methods <= set(response.headers["allow"].split(", ")) <= methods | {"HEAD"}, f"{method} {path}"
            assert all(method in problem["hint"] for method in methods), f"{method} {path}"


@pytest.mark.parametrize("path", ["/compute-resources", "/me", "/healthz", "/readyz", "/metrics", "/openapi.json"])
def test_head_is_get_without_the_body(common_site: Site, path: str) -> None:
    get_response, head_response = (common_site.request(method, path) for method in ("GET", "HEAD"))
    assert head_response.status_code == get_response.status_code == 200
    assert head_response.content == b""
    assert head_response.headers["content-type"] == get_response.headers["content-type"]


def test_unknown_methods_are_counted_as_one(common_site: Site) -> None:
    for number in range(20):
        common_site.client.request("X" + chr(65 + number), f"{API}/me")
    metrics = common_site.request("GET", "/metrics").text
    assert len([line for line in metrics.splitlines() if 'method="X' in line]) == 0


# Headers


@pytest.mark.parametrize(
    "value", ["", " ", "3,4", '"x"', "W/3x", "-1", "1e3", "0x1", "٣", '"3', "*,*", "9" * 5000, "a\x00b", '""']
)
def test_invalid_if_match_is_rejected(common_site: Site, objects: dict[str, str], value: str) -> None:
    headers = {"If-Match": value.encode()}
    for method, path, body in (
        ("PATCH", "/compute-resources/alpha-resource", {"description": "x"}),
        ("DELETE", "/projects/alpha/secrets/ALPHA_KEY", None),
        ("GET", "/me", None),
    ):
        response = common_site.request(method, path, body, headers=headers)
        if method != "GET" or response.status_code != 200:
            assert problem_of(response, 400)["code"] == "if_match"


@pytest.mark.parametrize("value", ["", "x" * 256, "a\x00b", "a\tb", "\x7f", "\x85", "x" * 100_000])
def test_invalid_idempotency_key_is_rejected(common_site: Site, value: str) -> None:
    response = common_site.request(
        "POST", "/departments", {"name": "once"}, headers={"Idempotency-Key": value.encode("latin-1")}
    )
    assert problem_of(response, 400)["code"] == "idempotency_key"


@pytest.mark.parametrize("value", ["é" * 10, "' OR 1=1", "%00", "ÿ"])
def test_unusual_idempotency_key_is_accepted_or_rejected_cleanly(common_site: Site, value: str) -> None:
    headers = {"Idempotency-Key": value.encode("latin-1")}
    response = common_site.request(
        "POST", "/departments", {"name": f"odd-{len(value)}{ord(value[0])}"}, headers=headers
    )
    assert response.status_code == 201 or problem_of(response, 400)


@pytest.mark.parametrize(
    "value",
    [
        "Bearer",
        "Bearer ",
        "Basic YTpi",
        "bearer",
        "fl_x",
        "Bearer a\x00b",
        "Bearer \xff",
        "Bearer " + "x" * 50_000,
        "Bearer ..",
        "",
    ],
)
def test_invalid_authorization_header_is_rejected(common_site: Site, value: str) -> None:
    response = common_site.request("GET", "/me", headers={"Authorization": value.encode("latin-1")})
    problem_of(response, 401)
    assert "xxxxx" not in response.text


@pytest.mark.parametrize("value", ["a b", "x" * 65, "ü", "a\x00b", "<script>", "", "a;b", '"a"', "a\nb"])
def test_request_id_that_could_corrupt_a_log_is_replaced(common_site: Site, value: str) -> None:
    response = common_site.request("GET", "/me", headers={"X-Request-ID": value.encode("utf-8")})
    assert response.status_code == 200
    assert re.fullmatch(r"[0-9a-f]{32}", response.headers["x-request-id"])


@pytest.mark.parametrize(
    "cookie", ["fairlead_session=", "fairlead_session=\x00", "fairlead_session=\xff", "a" * 20_000, ";;;="]
)
def test_invalid_session_cookie_is_rejected(common_site: Site, cookie: str) -> None:
    problem_of(common_site.request("GET", "/me", token=None, headers={"Cookie": cookie.encode("latin-1")}), 401)


def quote_value(value: str) -> str:
    """A value as part of a URL. Existing percent-encoding is preserved."""
    allowed = re.compile(r"[A-Za-z0-9._~%-]")
    return "".join(
        letter
        if allowed.fullmatch(letter)
        else "".join(f"%{byte:02x}" for byte in letter.encode("utf-8", "surrogatepass"))
        for letter in ("%25" if value == "%" else value)
    )
