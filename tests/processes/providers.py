"""A local identity provider: a real server with a sign-in page, signing keys and signed tokens."""

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from tests.adapters.issuers import AUDIENCE, EC, RSA, make_token, publish
from tests.adapters.login_endpoints import AUTHORIZE, CLIENT, TOKEN, LoginEndpoints


class Provider:
    """An identity provider that signs tokens."""

    def __init__(self, issuer: str) -> None:
        self.issuer = issuer
        self.login_endpoints = LoginEndpoints(issuer, lambda claims: self.token(**claims))
        discovery = {"issuer": issuer, "jwks_uri": f"{issuer}/keys", **self.login_endpoints.metadata}
        self.documents: dict[str, Any] = {
            "/.well-known/openid-configuration": discovery,
            "/keys": {"keys": [publish(RSA), publish(EC)]},
        }

    @property
    def variables(self) -> dict[str, str]:
        """The options for a server that trusts this identity provider."""
        return {
            "FAIRLEAD_AUTH": "oidc",
            "FAIRLEAD_OIDC_ISSUER": self.issuer,
            "FAIRLEAD_OIDC_AUDIENCE": AUDIENCE,
            "FAIRLEAD_ADMINS": "group:platform-admins",
        }

    @property
    def sign_in(self) -> dict[str, str]:
        """The options for a server with browser sign-in through this identity provider."""
        return {
            **self.variables,
            "FAIRLEAD_OIDC_CLIENT_ID": CLIENT,
            "FAIRLEAD_OIDC_CLIENT_SECRET": self.login_endpoints.secret or "",
        }

    def claims(self, **changed: Any) -> dict[str, Any]:
        """The claims of a valid token. None removes a claim."""
        now = int(time.time())
        valid = {"iss": self.issuer, "aud": AUDIENCE, "sub": "ada", "iat": now, "exp": now + 600}
        return {name: value for name, value in (valid | changed).items() if value is not None}

    def token(self, **changed: Any) -> str:
        """A token with valid claims, except for the changed ones."""
        return make_token(self.claims(**changed))


@contextmanager
def running() -> Iterator[Provider]:
    """Start a provider that serves HTTP requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if urlsplit(self.path).path == AUTHORIZE:
                self.send_response(302)
                self.send_header("Location", provider.login_endpoints.authorize(self.path))
                self.end_headers()
                return
            document = provider.documents.get(self.path)
            self._send(404 if document is None else 200, document)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            authorization = self.headers.get("Authorization", "")
            response = (
                provider.login_endpoints.exchange(dict(parse_qsl(body)), authorization)
                if self.path == TOKEN
                else (404, None)
            )
            self._send(*response)

        def _send(self, status: int, document: Any) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(json.dumps(document).encode())

        def log_message(self, *_: Any) -> None:
            """Disable the request log."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http_server:
        provider = Provider(f"http://127.0.0.1:{http_server.server_address[1]}")
        thread = threading.Thread(target=http_server.serve_forever)
        thread.start()
        yield provider
        http_server.shutdown()
        thread.join()
