"""The web page: its files as they were built, read once at the start, and every address that is the page's own."""

import hashlib
import re
import secrets
from dataclasses import dataclass
from pathlib import Path

from fastapi import APIRouter, FastAPI, Request, Response
from fastapi.responses import HTMLResponse
from starlette.exceptions import HTTPException
from starlette.routing import request_response

from fairlead.server.request_context import etag_matches

# Without a charset, text is latin-1 to some. What is built has nothing else in it.
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
NONCE = b"__NONCE__"
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'nonce-{nonce}'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
)
# The name of an asset has a digest of what is in it: under one name there is never anything else.
FOR_EVER = "public, max-age=31536000, immutable"
ASK_AGAIN = "no-cache"
# Below these, what is not there is a problem to everybody.
RESERVED = ("api", "assets", "healthz", "login", "metrics", "readyz", "served")
NOT_BUILT = """<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Fairlead</title></head>
<body><h1>Fairlead</h1><p>The server runs. Its web page was not built in this checkout:
<code>make ui</code> builds it, and a server that is started after that shows it.</p>
<p>The API is described at <a href="/api/v1/openapi.json">/api/v1/openapi.json</a>.</p></body></html>
"""


@dataclass(frozen=True)
class StaticFile:
    """A file of the page, as it is and, where that was made, compressed."""

    path: str
    content: bytes
    compressed: bytes | None
    digest: str

    def answer(self, request: Request) -> Response:
        """The file in the form that the caller takes, or only that it is still the same."""
        compressed = self.compressed if accepts(request.headers.get("accept-encoding", ""), "gzip", "*") else None
        tag = f'"{self.digest}{"-gzip" if compressed else ""}"'
        headers = {"ETag": tag, "Cache-Control": FOR_EVER if self.path.startswith("assets/") else ASK_AGAIN}
        if self.compressed is not None:
            headers["Vary"] = "Accept-Encoding"
        if etag_matches(request.headers.get("if-none-match", ""), tag):
            return Response(status_code=304, headers=headers)
        if compressed:
            headers["Content-Encoding"] = "gzip"
        media_type = MEDIA_TYPES.get(Path(self.path).suffix, UNKNOWN_MEDIA_TYPE)
        return Response(compressed or self.content, headers=headers | {"Content-Type": media_type})


class WebUi:
    """What there is of the page. Nothing that is not a file in its folder at the start is ever served."""

    def __init__(self, folder: Path | None) -> None:
        self.files = {} if folder is None else load_files(folder)
        index = self.files.pop("index.html", None)
        self.parts = None if index is None else index.content.split(NONCE)

    async def show(self, _request: Request) -> Response:
        """The page, with a word of its own for the styles that its scripts add."""
        if self.parts is None:
            return HTMLResponse(NOT_BUILT)
        nonce = secrets.token_urlsafe(16)
        headers = {"Cache-Control": ASK_AGAIN, "Content-Security-Policy": POLICY.format(nonce=nonce)}
        return HTMLResponse(nonce.encode().join(self.parts), headers=headers)

    async def show_file(self, request: Request) -> Response:
        """A file of the page."""
        file = self.files.get(request.scope["path"].removeprefix("/"))
        if file is None:
            raise HTTPException(404)
        return file.answer(request)

    async def show_any(self, request: Request) -> Response:
        """What no route has: a file beside the page, or an address that the page itself understands."""
        path = request.scope["path"].removeprefix("/")
        first = path.partition("/")[0]
        if request.method == "GET" and first and first not in RESERVED:
            if path in self.files:
                return await self.show_file(request)
            if accepts(request.headers.get("accept", ""), "text/html"):
                return await self.show(request)
        raise HTTPException(404)


def install(app: FastAPI, folder: Path | None) -> None:
    """Serve the page of a folder: at `/`, its assets, and wherever a browser looks for what no route has."""
    pages = WebUi(folder)
    router = APIRouter(include_in_schema=False)
    router.add_api_route("/", pages.show, methods=["GET"])
    router.add_api_route("/assets/{name:path}", pages.show_file, methods=["GET"])
    app.router.routes += router.routes
    app.router.default = request_response(pages.show_any)


def load_files(folder: Path) -> dict[str, StaticFile]:
    """Every file of a folder by its path in it; empty where there is no such folder."""
    contents = {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}
    return {
        path: StaticFile(path, content, contents.get(f"{path}.gz"), hashlib.sha256(content).hexdigest()[:32])
        for path, content in contents.items()
        if not path.endswith(".gz")
    }


def accepts(header: str, *kinds: str) -> bool:
    """Whether a header such as `Accept` takes the first of some kinds that it names: a weight of 0 refuses."""
    weights = dict(re.findall(r"([^\s,;]+)\s*(?:;[^,]*?\bq=([\d.]+))?[^,]*", header.lower()))
    named = [kind for kind in kinds if kind in weights]
    return bool(named) and not re.fullmatch(r"0(\.0*)?", weights[named[0]])
