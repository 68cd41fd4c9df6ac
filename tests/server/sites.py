"""A server in the test process, and a client for it."""

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
from fairlead.controllers.executor_registry import ExecutorRegistry
from fairlead.ports import Store
from fairlead.run_events import RunEvent, RunEvents
from fairlead.server.application import create_application
from fairlead.services.access.tokens import FirstRun
from fairlead.services.registry import ExecutionOptions, Services, SignInOptions, build_services, make_id
from tests.server.machines import Machine

COOKIE = "fairlead_session"
# The schemathesis checks for every response.
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
    """An application with a client, a store and an administrator."""

    app: FastAPI
    client: Client
    services: Services
    first_run: FirstRun
    store: Store
    token: str

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        token: str | None = "",
        headers: Headers | None = None,
        content: Any = None,
    ) -> Response:
        """Send a request, by default with the administrator's token."""
        sent_headers: dict[str, str | bytes] = dict(headers or {})
        if token is not None:
            sent_headers.setdefault("Authorization", f"Bearer {token or self.token}")
        if isinstance(body, bytes):
            content = body
            sent_headers.setdefault("Content-Type", "application/octet-stream")
        elif body is not None:
            content = json.dumps(body).encode()
            sent_headers.setdefault("Content-Type", "application/json")
        url = path if path.startswith(("/login", API)) or path == "/" else API + path
        encoded = {
            name.encode(): value if isinstance(value, bytes) else value.encode() for name, value in sent_headers.items()
        }
        self.client.cookies.clear()  # send only the test's cookies
        return self.client.request(method, url, headers=encoded, content=content)

    def get(self, path: str, **options: Any) -> Any:
        """GET, and return the decoded body."""
        return decode(self.request("GET", path, **options))

    def post(self, path: str, body: Any, **options: Any) -> Any:
        """POST, and return the created object."""
        return decode(self.request("POST", path, body, **options))

    def put(self, path: str, body: Any, **options: Any) -> Any:
        """PUT, and return the object."""
        return decode(self.request("PUT", path, body, **options))

    def token_of(self, user: str, **roles: str) -> str:
        """A token for a user with roles: `viewer="project/alpha"`."""
        for role, scope in roles.items():
            self.post("/roles", {"subject": f"user:{user}", "role": role, "scope": scope})
        token: str = self.post("/tokens", {"name": f"token of {user}", "user": user})["token"]
        return token

    def create_login_code(self) -> str:
        """The one-time code from a new sign-in link for the administrator."""
        return self.first_run.issue_local_token(ADMIN, MACHINE, self.token)[1]

    @property
    def document(self) -> dict[str, Any]:
        """The server's OpenAPI document."""
        return self.app.openapi()


@dataclass(frozen=True)
class Operation:
    """An operation in the OpenAPI document."""

    method: str
    path: str
    spec: dict[str, Any]

    @property
    def key(self) -> str:
        """The method and the path, as in tables of operations."""
        return f"{self.method} {self.path.removeprefix(API)}"

    @property
    def id(self) -> str:
        """The operation ID."""
        return str(self.spec["operationId"])

    def parameters(self, location: str) -> list[dict[str, Any]]:
        """The parameters in a location: path, query or header."""
        return [item for item in self.spec.get("parameters", ()) if item["in"] == location]

    @property
    def body(self) -> dict[str, Any] | None:
        """The schema of a JSON body, or None."""
        schema: dict[str, Any] | None = self.bodies.get("application/json", {}).get("schema")
        return schema

    @property
    def bodies(self) -> dict[str, Any]:
        """The request body by media type."""
        content: dict[str, Any] = self.spec.get("requestBody", {}).get("content", {})
        return content

    @property
    def is_public(self) -> bool:
        """Whether the operation needs no authentication."""
        return self.spec.get("security") == []

    @property
    def is_list(self) -> bool:
        """Whether the response is a page of a list."""
        return any(item["name"] == "limit" for item in self.parameters("query"))


def operations_of(document: Mapping[str, Any]) -> list[Operation]:
    """Every operation that a document describes."""
    return [
        Operation(method.upper(), path, spec)
        for path, methods in document["paths"].items()
        for method, spec in methods.items()
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
    """A server over an empty store that has not been started yet, and its fake executor."""
    machine = Machine(store)
    run_events = RunEvents()
    run_events.subscribe(machine.update_run, RunEvent.CHANGED)
    execution = ExecutionOptions(ExecutorRegistry({"kubernetes": machine}), run_events)
    services, first_run = build_services(
        store, keyrings.AesKeyring(keyrings.parse_keys(KEY)), sign_in, execution=execution
    )
    first_run.initialize([f"user:{ADMIN}"])
    token, _ = first_run.issue_local_token(ADMIN, MACHINE, None)
    app = create_application(
        services, check_ready=lambda: None, make_id=make_id, url=url, stream_seconds=0.0, **options
    )
    client: Any = TestClient(app, base_url=url, raise_server_exceptions=False, follow_redirects=False)
    return Site(app, client, services, first_run, store, token), machine


def decode(response: Response) -> Any:
    """The body of a successful response."""
    assert response.status_code < 300, f"{response.request.method} {response.request.url}: {response.text[:1000]}"
    return response.json() if response.content else None


def problem_of(response: Response, *statuses: int) -> dict[str, Any]:
    """The problem details from a client error."""
    context = (
        f"{response.request.method} {str(response.request.url)[:300]}: {response.status_code} {response.text[:600]}"
    )
    assert 400 <= response.status_code < 500, context
    assert response.headers["content-type"] == PROBLEM, context
    problem: dict[str, Any] = response.json()
    assert problem.keys() >= REQUIRED, context
    assert problem["status"] == response.status_code, context
    assert problem["request_id"] == response.headers["x-request-id"], context
    assert all(isinstance(problem[name], str) and problem[name] for name in REQUIRED - {"status"}), context
    if statuses:
        assert response.status_code in statuses, context
    return problem


def paths_of(problem: Mapping[str, Any]) -> list[str]:
    """The paths of a problem's violations."""
    return [violation["path"] for violation in problem.get("violations", ())]


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail if a block uses more than the given seconds of CPU time.

    Garbage collection is off, because its duration depends on other tests' memory.
    """
    gc.disable()
    try:
        started = time.process_time()
        yield
        took = time.process_time() - started
    finally:
        gc.enable()
    assert took < seconds, f"used {took:.2f} s of CPU time"


def cookie_in(response: Response, name: str = COOKIE) -> Any:
    """The session cookie that a response sets, or a different cookie."""
    jar: SimpleCookie = SimpleCookie(response.headers["set-cookie"])
    return jar[name]
