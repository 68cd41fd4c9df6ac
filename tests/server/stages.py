"""A real server with served runs, and clients for them."""

import contextlib
import socket
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import httpx2

from fairlead.model.records import RunRecord
from fairlead.model.runs import Endpoint
from fairlead.ports import Store
from fairlead.server.proxy.http import ProxyConfig
from fairlead.services.registry import SignInOptions
from tests.server.machines import Machine
from tests.server.sites import Site, build_site
from tests.server.upstreams import TIMEOUT_SECONDS, listen, run_server

SERVED = {"name": "model", "kind": "container", "image": "registry.example/model:1", "port": 8000}
COOKIE = "fairlead_run_session"


@dataclass(frozen=True)
class Stage:
    """A server with a project whose runs serve what a test defines."""

    site: Site
    machine: Machine
    url: str
    client: httpx2.Client

    @property
    def port(self) -> int:
        """The port on this machine that the server listens on."""
        return urlsplit(self.url).port or 0

    def serve(self, endpoint: Endpoint | None, action: str = "serve", **overrides: Any) -> str:
        """Submit a run that serves at the endpoint, and return its ID."""
        created = self.site.post("/projects/alpha/runs", {"function": SERVED, "action": action})
        fields = {"state": "running", "reason": "Ready", "message": "answers", "server_id": "here", **overrides}
        with self.site.store.recording() as tx:
            run = tx.get(RunRecord, id=created["id"])
            assert run is not None
            tx.save(replace(run, **fields, revision=run.revision + 1))
        if endpoint is not None:
            self.machine.endpoints[run.id] = endpoint
        return run.id

    def run(self, run_id: str) -> RunRecord:
        """The record of a run."""
        with self.site.store.reading() as tx:
            record = tx.get(RunRecord, id=run_id)
        assert record is not None
        return record

    def request(self, method: str, run_id: str, path: str = "/", *, token: str | None = "", **options: Any) -> Any:
        """Send a request to a run as a program."""
        headers = dict(options.pop("headers", {}))
        if token is not None:
            headers.setdefault("Authorization", f"Bearer {token or self.site.token}")
        return self.client.request(method, f"/served/{run_id}{path}", headers=headers, **options)

    def browse(self, run_id: str, path: str = "/", *, cookie: str | None = None, **options: Any) -> Any:
        """Send a request to a run's host as a browser."""
        headers = {"Host": self.host(run_id), **options.pop("headers", {})}
        if cookie is not None:
            headers.setdefault("Cookie", f"{COOKIE}={cookie}")
        self.client.cookies.clear()
        return self.client.request(options.pop("method", "GET"), path, headers=headers, **options)

    def host(self, run_id: str) -> str:
        """A run's host."""
        return f"{run_id}.localhost:{self.port}"

    def open(self, run_id: str, token: str = "") -> str:
        """The sign-in path with a one-time code, relative to the run's host."""
        url: str = self.site.post(f"/runs/{run_id}/open", None, token=token or self.site.token)["url"]
        assert url.startswith(f"http://{self.host(run_id)}/.fairlead/sign-in?code=")
        return url.removeprefix(f"http://{self.host(run_id)}")

    def sign_in(self, run_id: str, token: str = "") -> str:
        """A browser's session cookie."""
        response = self.browse(run_id, self.open(run_id, token))
        assert (response.status_code, response.headers["location"]) == (303, "/"), response.text
        return str(response.cookies[COOKIE])

    @contextlib.contextmanager
    def open_websocket(self, run_id: str, path: str, *, host: str | None = None, **options: Any) -> Iterator[Any]:
        """Open a WebSocket to a run as a program, or as a browser if a host is given."""
        headers = {"Host": host} if host else {"Authorization": f"Bearer {self.site.token}"}
        headers |= options.pop("headers", {})
        url = self.url.replace("http:", "ws:") + ("" if host else f"/served/{run_id}") + path
        with self.client.websocket(url, headers=headers, **options) as websocket:
            yield websocket


@contextlib.contextmanager
def open_stage(
    store: Store,
    proxy_config: ProxyConfig | None = None,
    url: str | None = None,
    sign_in: SignInOptions | None = None,
    **options: Any,
) -> Iterator[Stage]:
    """A server over an empty store."""
    listener: socket.socket = listen(None)
    server_url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    site, machine = build_site(store, url or server_url, sign_in, proxy_config=proxy_config, **options)
    with run_server(site.app, listener=listener):
        client_options: Any = {
            "timeout": TIMEOUT_SECONDS,
            "trust_env": False,
            "verify": False,
            "follow_redirects": False,
        }
        with httpx2.Client(base_url=server_url, **client_options) as client:
            site = replace(site, client=client)  # all requests go to the server's single event loop
            if site.request("GET", "/projects/alpha").status_code == 404:
                site.post("/clusters", {"name": "far"})
                site.post("/projects", {"name": "alpha", "parent": "cluster/far"})
            yield Stage(site, machine, server_url, client)
