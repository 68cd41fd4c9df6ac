"""The web UI: served at its own URLs, and no other file from its folder."""

import asyncio
import gzip
import json
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from httpx2 import Response
from starlette.types import Message

from fairlead.adapters.database.stores import DatabaseStore
from fairlead.server.http.web_ui import accepts
from tests.server.sites import Site, open_site, problem_of

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8"
SCRIPT = b"console.log('fairlead');" * 100
STYLE = b"body { margin: 0 }"
INDEX = b"""<!doctype html><html lang="en"><head><title>Fairlead</title><meta name="csp-nonce" content="__NONCE__">
<script type="module" src="/assets/index-1a2b3c.js"></script></head><body></body></html>"""
IMMUTABLE = "public, max-age=31536000, immutable"


@pytest.fixture
def built(sqlite_store: DatabaseStore, tmp_path: Path) -> Iterator[Site]:
    """A server with a built page."""
    folder = tmp_path / "_ui"
    (folder / "assets").mkdir(parents=True)
    (tmp_path / "secret").write_text("never served")
    files = {
        "index.html": INDEX,
        "index.html.gz": gzip.compress(INDEX),
        "favicon.svg": b"<svg/>",
        "assets/index-1a2b3c.js": SCRIPT,
        "assets/index-1a2b3c.js.gz": gzip.compress(SCRIPT),
        "assets/index-4d5e6f.css": STYLE,
        "assets/inter-7a8b9c.woff2": b"\x00font",
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    with open_site(sqlite_store, page=folder) as site:
        yield site


def send_request(site: Site, path: str, method: str = "GET", *, accept: str = BROWSER, **headers: str) -> Response:
    """Send a request without authentication."""
    sent_headers = {"accept": accept, "accept-encoding": "identity"}
    sent_headers |= {name.replace("_", "-"): value for name, value in headers.items()}
    return site.client.request(method, path, headers=sent_headers)


def send_raw_path(site: Site, path: str, accept: str) -> tuple[int, bytes]:
    """The status and the body for a path that HTTP clients would normalize."""
    sent: list[Message] = []
    headers = [(b"accept", accept.encode())]
    scope = {"type": "http", "method": "GET", "path": unquote(path), "raw_path": path.encode(), "query_string": b""}

    async def receive() -> Message:
        return {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    asyncio.run(site.app({**scope, "headers": headers, "client": None, "server": None}, receive, send))
    return sent[0]["status"], b"".join(message.get("body", b"") for message in sent)


def nonce_of(response: Response) -> str:
    """The nonce in the header and in the page."""
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/html; charset=utf-8"
    policies = response.headers.get_list("content-security-policy")
    assert len(policies) == 1
    match = re.search(r"style-src 'self' 'nonce-([\w-]{20,})';", policies[0])
    assert match is not None
    assert f'<meta name="csp-nonce" content="{match[1]}">' in response.text
    return match[1]


# The page


@pytest.mark.parametrize("accept", [BROWSER, "*/*", "application/json"])
def test_page_is_served_at_the_root_without_sign_in(built: Site, accept: str) -> None:
    response = send_request(built, "/?search=gpu&sort=-name", accept=accept)
    nonce_of(response)
    assert response.headers["cache-control"] == "no-cache"
    assert response.headers["x-frame-options"] == "DENY"


def test_content_security_policy_is_complete(built: Site) -> None:
    response = send_request(built, "/")
    assert response.headers["content-security-policy"] == (
        f"default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce_of(response)}'; img-src 'self' data:; "
        "font-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
    )


def test_each_response_has_its_own_nonce(built: Site) -> None:
    nonces = [nonce_of(send_request(built, path)) for path in ("/", "/", "/policies", "/policies")]
    assert len(set(nonces)) == 4


@pytest.mark.parametrize(
    "path",
    ["/compute-resources", "/compute-resources/a.b?tab=revisions", "/organization/project/forest", "/index.html"],
)
def test_page_url_serves_the_page_to_a_browser(built: Site, path: str) -> None:
    nonce_of(send_request(built, path))
    head = send_request(built, path, "HEAD")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-type"] == "text/html; charset=utf-8"


@pytest.mark.parametrize("accept", ["application/json", "*/*", "image/avif,image/*", "text/html;q=0", ""])
def test_request_that_does_not_accept_html_gets_a_problem(built: Site, accept: str) -> None:
    problem_of(send_request(built, "/compute-resources", accept=accept), 404)


@pytest.mark.parametrize("path", ["/", "/compute-resources", "/assets/index-1a2b3c.js"])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"])
def test_page_supports_no_other_method(built: Site, path: str, method: str) -> None:
    response = send_request(built, path, method)
    assert problem_of(response)["status"] == (404 if path == "/compute-resources" else 405)
    assert response.headers.get("allow") == (None if path == "/compute-resources" else "GET")


@pytest.mark.parametrize(
    "path",
    [
        *("/api", "/api/v1", "/api/v2/runs", "/api/v1/nothing", "/healthz/x", "/metrics/", "/readyz/"),
        *("/login/elsewhere", "/assets", "/assets/", "/assets/index.js"),
    ],
)
def test_unknown_path_below_a_server_path_serves_no_page(built: Site, path: str) -> None:
    response = send_request(built, path)
    problem_of(response, 404)
    assert "nonce" not in response.headers["content-security-policy"]


# Assets


@pytest.mark.parametrize(
    ("path", "content", "media_type"),
    [
        ("/assets/index-1a2b3c.js", SCRIPT, "text/javascript; charset=utf-8"),
        ("/assets/index-4d5e6f.css", STYLE, "text/css; charset=utf-8"),
        ("/assets/inter-7a8b9c.woff2", b"\x00font", "font/woff2"),
    ],
)
def test_assets_are_cached_forever(built: Site, path: str, content: bytes, media_type: str) -> None:
    for accept in ("*/*", BROWSER):
        response = send_request(built, path, accept=accept)
        assert (response.status_code, response.content) == (200, content)
        assert response.headers["content-type"] == media_type
        assert response.headers["cache-control"] == IMMUTABLE
        assert response.headers["content-security-policy"].startswith("default-src 'none'; style-src 'self';")
        assert "set-cookie" not in response.headers
    head = send_request(built, path, "HEAD")
    assert (head.status_code, head.content) == (200, b"")
    assert head.headers["content-length"] == str(len(content))


def test_file_without_a_digest_in_its_name_is_revalidated(built: Site) -> None:
    response = send_request(built, "/favicon.svg", accept="image/*")
    assert (response.content, response.headers["content-type"]) == (b"<svg/>", "image/svg+xml")
    assert response.headers["cache-control"] == "no-cache"
    second = send_request(built, "/favicon.svg", if_none_match=response.headers["etag"])
    assert (second.status_code, second.content) == (304, b"")


@pytest.mark.parametrize(
    ("accept_encoding", "compressed"),
    [
        ("gzip", True),
        ("gzip, deflate, br, zstd", True),
        ("br;q=1.0, gzip;q=0.8", True),
        ("*", True),
        ("", False),
        ("br", False),
        ("gzip;q=0", False),
        ("*;q=0.5, gzip;q=0.0", False),
        ("xgzip", False),
    ],
)
def test_asset_is_compressed_if_the_client_accepts_it(built: Site, accept_encoding: str, compressed: bool) -> None:
    response = send_request(built, "/assets/index-1a2b3c.js", accept_encoding=accept_encoding)
    assert response.content == SCRIPT
    assert response.headers.get("content-encoding") == ("gzip" if compressed else None)
    assert response.headers["vary"] == "Accept-Encoding"
    assert (int(response.headers["content-length"]) < len(SCRIPT)) == compressed


def test_asset_without_a_compressed_file_is_sent_uncompressed(built: Site) -> None:
    response = send_request(built, "/assets/index-4d5e6f.css", accept_encoding="gzip")
    assert response.content == STYLE
    assert "content-encoding" not in response.headers
    assert "vary" not in response.headers


def test_etag_depends_on_the_encoding(built: Site) -> None:
    path = "/assets/index-1a2b3c.js"
    identity_tag, gzip_tag = (
        send_request(built, path, accept_encoding=encoding).headers["etag"] for encoding in ("identity", "gzip")
    )
    assert identity_tag != gzip_tag
    for header in (identity_tag, f'"other", {identity_tag}', f"W/{identity_tag}"):
        response = send_request(built, path, if_none_match=header)
        assert (response.status_code, response.content) == (304, b"")
        assert response.headers["cache-control"] == IMMUTABLE
    assert send_request(built, path, if_none_match=gzip_tag).status_code == 200


@pytest.mark.parametrize(
    "path",
    [
        "/assets/../secret",
        "/assets/../../secret",
        "/assets/%2e%2e/%2e%2e/secret",
        "/assets/..%2f..%2fsecret",
        "/assets/%2e%2e%2f%2e%2e%2fsecret",
        "/assets/..%5c..%5csecret",
        "/assets/%252e%252e/secret",
        "/assets//etc/passwd",
        "/assets/%2fetc%2fpasswd",
        "/assets/./index-1a2b3c.js",
        "/assets/index-1a2b3c.js/",
        "/assets/index-1a2b3c.js.gz",
        "/assets/INDEX-1A2B3C.JS",
        "/../secret",
        "/%2e%2e/secret",
        "/favicon.svg/..",
        "/index.html.gz",
    ],
)
def test_nothing_outside_the_page_folder_is_served(built: Site, path: str) -> None:
    status, body = send_raw_path(built, path, "*/*")
    assert (status, json.loads(body)["code"]) == (404, "not_found")
    assert b"never served" not in send_raw_path(built, path, BROWSER)[1]


@pytest.mark.parametrize("path", ["//api", "//evil.example/login", "///", ""])
def test_url_that_a_browser_would_normalize_serves_no_page(built: Site, path: str) -> None:
    assert send_raw_path(built, path, BROWSER)[0] == 404


# Without a page


@pytest.mark.parametrize("path", ["/", "/compute-resources"])
def test_server_without_a_built_page_explains_how_to_build_it(site: Site, path: str) -> None:
    response = send_request(site, path)
    assert response.status_code == 200
    assert "is not built" in response.text
    assert "make ui" in response.text
    assert "nonce" not in response.headers["content-security-policy"]
    problem_of(send_request(site, "/assets/index-1a2b3c.js"), 404)


def test_folder_without_a_page_counts_as_not_built(sqlite_store: DatabaseStore, tmp_path: Path) -> None:
    for folder in (tmp_path, tmp_path / "nothing"):
        with open_site(sqlite_store, page=folder) as site:
            assert "is not built" in send_request(site, "/").text


@pytest.mark.parametrize(
    ("header", "accepted"),
    [
        ("text/html", True),
        ("TEXT/HTML;charset=utf-8;q=0.1", True),
        ("a/b, text/html; q=0.001", True),
        ("text/html;level=1;q=0", False),
        ("text/html2", False),
        ("*/*", False),
        (",;,", False),
    ],
)
def test_accept_header_is_parsed(header: str, accepted: bool) -> None:
    assert accepts(header, "text/html") is accepted


@pytest.mark.parametrize("path", ["/", "/assets/index-1a2b3c.js", "/api/v1/me", "/nothing"])
def test_websockets_are_rejected(built: Site, path: str) -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "websocket", "path": path, "headers": [], "query_string": b"", "scheme": "ws", "subprotocols": []}
    asyncio.run(built.app(scope, receive, send))
    assert [message["type"] for message in sent] == ["websocket.close"]
