"""The web UI: serves its built files, which are read once at startup, and its client-side routes."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException
from starlette.routing import request_response
from starlette.types import Receive, Scope, Send

from fairlead.server.http.request_context import etag_matches

# Without a charset, some clients read text as Latin-1. The build produces no other types.
MEDIA_TYPES = {
    ".css": "text/css; charset=utf-8",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".js": "text/javascript; charset=utf-8",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".txt": "text/plain; charset=utf-8",
    ".webp": "image/webp",
    ".woff2": "font/woff2",
}
UNKNOWN_MEDIA_TYPE = "application/octet-stream"
NONCE = b"__NONCE__"  # replaced in index.html for each response
# Scripts come from files only. Mantine adds style elements at runtime, which need the nonce.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# Asset file names contain a digest of the content, so the content at a URL never changes.
CACHE_FOREVER = "public, max-age=31536000, immutable"
REVALIDATE = "no-cache"
# Missing paths under these get a 404 response, not the page.
RESERVED = ("api", "assets", "healthz", "login", "metrics", "readyz", "served")
NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Fairlead</title></head>
<body><h1>Fairlead</h1><p>The server is running, but the web UI is not built in this checkout.
Run <code>make ui</code> and restart the server.</p>
<p>The API is described at <a href="/api/v1/openapi.json">/api/v1/openapi.json</a>.</p></body></html>
"""


@dataclass(frozen=True)
class StaticFile:
    """A web UI file, with a gzip-compressed copy if the build made one."""

    path: str
    content: bytes
    compressed: bytes | None
    digest: str

    def respond(self, request: Request) -> Response:
        """The file, compressed if the client accepts it; 304 if the client has it."""
        compressed = self.compressed if accepts(request.headers.get("accept-encoding", ""), "gzip", "*") else None
        # Each encoding has its own ETag, because the bytes differ (RFC 9110, section 8.8.3.3).
        tag = f'"{self.digest}{"-gzip" if compressed else ""}"'
        headers = {"ETag": tag, "Cache-Control": CACHE_FOREVER if self.path.startswith("assets/") else REVALIDATE}
        # Uncompressed responses also need Vary, because caches must store both versions.
        if self.compressed is not None:
            headers["Vary"] = "Accept-Encoding"
        if etag_matches(request.headers.get("if-none-match", ""), tag):
            return Response(status_code=304, headers=headers)
        if compressed:
            headers["Content-Encoding"] = "gzip"
        media_type = MEDIA_TYPES.get(Path(self.path).suffix, UNKNOWN_MEDIA_TYPE)
        return Response(compressed or self.content, headers=headers | {"Content-Type": media_type})


class WebUi:
    """Serves the files that were in a folder at startup, and nothing else."""

    def __init__(self, folder: Path | None) -> None:
        self.files = {} if folder is None else load_files(folder)
        # Not served as a file, because it needs a nonce.
        index = self.files.pop("index.html", None)
        self.parts = None if index is None else index.content.split(NONCE)

    async def serve_index(self, _request: Request) -> Response:
        """The page, with a fresh nonce for the styles that its scripts add."""
        if self.parts is None:
            return HTMLResponse(NOT_BUILT)
        nonce = secrets.token_urlsafe(16)
        headers = {"Cache-Control": REVALIDATE, "Content-Security-Policy": POLICY.format(nonce=nonce)}
        return HTMLResponse(nonce.encode().join(self.parts), headers=headers)

    async def serve_file(self, request: Request) -> Response:
        """The file at the requested path."""
        file = self.files.get(request.scope["path"].removeprefix("/"))
        if file is None:
            raise HTTPException(404)
        return file.respond(request)

    async def serve_fallback(self, request: Request) -> Response:
        """Respond to a path without a route: a file, or the page for its client-side routes."""
        path = request.scope["path"].removeprefix("/")
        first = path.partition("/")[0]
        # The first segment is empty in //host/path, which links on the page would resolve to another host.
        if request.method == "GET" and first and first not in RESERVED:
            if path in self.files:
                return await self.serve_file(request)
            if accepts(request.headers.get("accept", ""), "text/html"):
                return await self.serve_index(request)
        raise HTTPException(404)


def install(app: FastAPI, folder: Path | None) -> None:
    """Serve a folder's web UI: the page at `/`, its assets, and a fallback for every other path without a route."""
    web_ui = WebUi(folder)
    router = APIRouter(include_in_schema=False)
    router.add_api_route("/", web_ui.serve_index, methods=["GET"])
    router.add_api_route("/assets/{name:path}", web_ui.serve_file, methods=["GET"])
    app.router.routes += router.routes
    serve_http = request_response(web_ui.serve_fallback)

    async def serve_fallback(scope: Scope, receive: Receive, send: Send) -> None:
        await (serve_http if scope["type"] == "http" else app.router.not_found)(scope, receive, send)

    app.router.default = serve_fallback


def load_files(folder: Path) -> dict[str, StaticFile]:
    """The files of a folder by relative path; empty if the folder does not exist."""
    # Requests only look up keys of this dictionary, so no path can leave the folder.
    contents = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    return {
        path: StaticFile(path, content, contents.get(f"{path}.gz"), hashlib.sha256(content).hexdigest()[:32])
        for path, content in contents.items()
        if not path.endswith(".gz")
    }


def accepts(header: str, *kinds: str) -> bool:
    """Whether the first of `kinds` that an Accept or Accept-Encoding header lists has a weight above 0."""
    weights = dict(re.findall(r"([^\s,;]+)\s*(?:;[^,]*?\bq=([\d.]+))?[^,]*", header.lower()))
    listed = [kind for kind in kinds if kind in weights]
    return bool(listed) and not re.fullmatch(r"0(\.0*)?", weights[listed[0]])
