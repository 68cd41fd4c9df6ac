"""A server in the process of the test, and how it is asked."""

import base64
import contextlib
import gc
import json
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http.cookies import SimpleCookie
from pathlib import Path
from typing import Any

from fastapi import FastAPI
from httpx2 import Client, Response
from starlette.testclient import TestClient

from fairlead.adapters import keyrings
from fairlead.composition import ExecutionOptions, SignInOptions, build_services, make_id
from fairlead.controllers.executor_registry import ExecutorRegistry
from fairlead.ports import Store
from fairlead.server.applications import create_application
from fairlead.server.request_context import Services
from fairlead.services.first_run import FirstRun
from tests.server.machines import Machine

COOKIE = "fairlead_session"
# The checks of schemathesis for every response.
CHECKED = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_schema_conformance",
    "response_headers_conformance",
)
API = "/api/v1"
URL = "http://fairlead.test"
ADMIN = "ann"
MACHINE = "this machine"
PROBLEM = "application/problem+json"
REQUIRED = {"type", "title", "status", "code", "detail", "request_id"}
KEY = base64.b64encode(b"k" * 32).decode()
METHODS = ("get", "put", "post", "delete", "options", "head", "patch", "trace")

Headers = Mapping[str, str | bytes]


@dataclass(frozen=True)
class Site:
    """An application with a store and an administrator."""

    app: FastAPI
    client: Client
    services: Services
    founding: FirstRun
    store: Store
    token: str

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        headers: Headers | None = None,
        content: Any = None,
    ) -> Response:
        """Send a request, by default with the token of the administrator."""
        sent: dict[str, str | bytes] = dict(headers or {})
        if token is not None:
            sent.setdefault("Authorization", f"Bearer {token or self.token}")
        if isinstance(body, bytes):
            content = body
            sent.setdefault("Content-Type", "application/octet-stream")
        elif body is not None:
            content = json.dumps(body).encode()
            sent.setdefault("Content-Type", "application/json")
        url = path if path.startswith(("/login", API)) or path == "/" else API + path
        encoded = {name.encode(): value if isinstance(value, bytes) else value.encode() for name, value in sent.items()}
        self.client.cookies.clear()  # only what a test sends is sent
        return self.client.request(method, url, headers=encoded, content=content)

    def get(self, path: str, **options: Any) -> Any:
        """GET, and return the decoded body."""
        return told(self.ask("GET", path, **options))

    def make(self, path: str, body: Any, **options: Any) -> Any:
        """POST, and return the created object."""
        return told(self.ask("POST", path, body, **options))

    def put(self, path: str, body: Any, **options: Any) -> Any:
        """PUT, and return the object."""
        return told(self.ask("PUT", path, body, **options))

    def token_of(self, user: str, **roles: str) -> str:
        """A token of a user with roles: `viewer="project/alpha"`."""
        for role, scope in roles.items():
            self.make("/roles", {"subject": f"user:{user}", "role": role, "scope": scope})
        token: str = self.make("/tokens", {"name": f"token of {user}", "user": user})["token"]
        return token

    def invite(self) -> str:
        """The word of a new sign-in link for the administrator."""
        return self.founding.issue_local_token(ADMIN, MACHINE, self.token)[1]

    @property
    def document(self) -> dict[str, Any]:
        """How the server describes itself."""
        return self.app.openapi()


@dataclass(frozen=True)
class Operation:
    """One method of one path, as it is described."""

    method: str
    path: str
    said: dict[str, Any]

    @property
    def key(self) -> str:
        """How tables name it."""
        return f"{self.method} {self.path.removeprefix(API)}"

    @property
    def id(self) -> str:
        """How programs name it."""
        return str(self.said["operationId"])

    def parameters(self, place: str) -> list[dict[str, Any]]:
        """The parameters in path, query and headers."""
        return [item for item in self.said.get("parameters", ()) if item["in"] == place]

    @property
    def body(self) -> dict[str, Any] | None:
        """The schema of a JSON body, or None."""
        schema: dict[str, Any] | None = self.bodies.get("application/json", {}).get("schema")
        return schema

    @property
    def bodies(self) -> dict[str, Any]:
        """The request body by media type."""
        content: dict[str, Any] = self.said.get("requestBody", {}).get("content", {})
        return content

    @property
    def is_public(self) -> bool:
        """Whether it needs no authentication."""
        return self.said.get("security") == []

    @property
    def is_list(self) -> bool:
        """Whether it answers in pages."""
        return any(item["name"] == "limit" for item in self.parameters("query"))


def operations_of(document: Mapping[str, Any]) -> list[Operation]:
    """Every operation that a document describes."""
    return [
        Operation(method.upper(), path, said)
        for path, methods in document["paths"].items()
        for method, said in methods.items()
        if method in METHODS
    ]


@contextlib.contextmanager
def open_site(
    store: Store, url: str = URL, sign_in: SignInOptions | None = None, page: Path | None = None
) -> Iterator[Site]:
    """A server over an empty store."""
    site, _ = build_site(store, url, sign_in, page=page)
    with site.client:
        yield site


def build_site(
    store: Store, url: str = URL, sign_in: SignInOptions | None = None, **options: Any
) -> tuple[Site, Machine]:
    """A server over an empty store that was not started yet, and what pretends to execute its runs."""
    machine = Machine(store)
    execution = ExecutionOptions(ExecutorRegistry({"kubernetes": machine}), machine.hear_of)
    services, founding = build_services(
        store, keyrings.AesKeyring(keyrings.parse_keys(KEY)), sign_in, execution=execution
    )
    founding.initialize([f"user:{ADMIN}"])
    token, _ = founding.issue_local_token(ADMIN, MACHINE, None)
    app = create_application(
        services, check_ready=lambda: None, make_id=make_id, url=url, stream_seconds=0.0, **options
    )
    client: Any = TestClient(app, base_url=url, raise_server_exceptions=False, follow_redirects=False)
    return Site(app, client, services, founding, store, token), machine


def told(answer: Response) -> Any:
    """The body of a successful response."""
    assert answer.status_code < 300, f"{answer.request.method} {answer.request.url}: {answer.text[:1000]}"
    return answer.json() if answer.content else None


def problem_of(answer: Response, *statuses: int) -> dict[str, Any]:
    """The problem details of a client error."""
    asked = f"{answer.request.method} {str(answer.request.url)[:300]}: {answer.status_code} {answer.text[:600]}"
    assert 400 <= answer.status_code < 500, asked
    assert answer.headers["content-type"] == PROBLEM, asked
    said: dict[str, Any] = answer.json()
    assert said.keys() >= REQUIRED, asked
    assert said["status"] == answer.status_code, asked
    assert said["request_id"] == answer.headers["x-request-id"], asked
    assert all(isinstance(said[name], str) and said[name] for name in REQUIRED - {"status"}), asked
    if statuses:
        assert answer.status_code in statuses, asked
    return said


def paths_of(problem: Mapping[str, Any]) -> list[str]:
    """Where the violations of a problem are."""
    return [found["path"] for found in problem.get("violations", ())]


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail where something takes longer: of the processor, which others may keep busy as well.

    Without looking for what is garbage: that takes as long as there is much of other tests in memory.
    """
    gc.disable()
    try:
        started = time.process_time()
        yield
        took = time.process_time() - started
    finally:
        gc.enable()
    assert took < seconds, f"took {took:.2f} s of the processor"


def cookie_in(answer: Response, name: str = COOKIE) -> Any:
    """The session that an answer sets, or another cookie."""
    jar: SimpleCookie = SimpleCookie(answer.headers["set-cookie"])
    return jar[name]
