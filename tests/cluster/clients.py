"""A client for the real API server, for tests. It raises on error responses."""

import json
import ssl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

import httpx2

T = TypeVar("T")
Object = dict[str, Any]

TIMEOUT = 60.0  # seconds; a busy machine takes several times as long as an idle one
PLURALS = {"NetworkPolicy": "networkpolicies", "StorageClass": "storageclasses", "PriorityClass": "priorityclasses"}
CLUSTER_SCOPED = {
    *("Namespace", "Node", "PersistentVolume", "StorageClass", "PriorityClass", "RuntimeClass"),
    *("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"),
}
MERGE, STRATEGIC, APPLY = "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"


class ApiError(Exception):
    """An error response from the API server."""

    def __init__(self, response: httpx2.Response) -> None:
        self.status, self.body = response.status_code, response.text
        super().__init__(
            f"{response.request.method} {response.request.url.path}: {response.status_code} {response.text[:2000]}"
        )


class Client:
    """A client for cluster objects, addressed by path, such as /api/v1/namespaces/x/pods/y."""

    def __init__(self, url: str, authority: Path, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        verify = make_context(authority)
        self.http = httpx2.Client(base_url=url, headers=headers, verify=verify, timeout=TIMEOUT, trust_env=False)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self.http.close()

    def get(self, path: str, **params: Any) -> Any:
        """Get an object or a list."""
        return self._request("GET", path, params=params).json()

    def find(self, path: str) -> Object | None:
        """Get an object, or None if it does not exist."""
        response = self.http.get(path)
        return None if response.status_code == 404 else _checked(response).json()

    def items(self, path: str, **params: Any) -> list[Object]:
        """The objects of a list."""
        items: list[Object] = self.get(path, **params)["items"]
        return items

    def create(self, body: Object, namespace: str | None = None, **params: Any) -> Object:
        """Create an object, by default in the namespace from its metadata."""
        created: Object = self._request("POST", path_of(body, namespace, named=False), params=params, json=body).json()
        return created

    def post(self, path: str, body: Object, **params: Any) -> Any:
        """Send a POST request and return the response."""
        return self._request("POST", path, params=params, json=body).json()

    def patch(self, path: str, body: Object, kind: str = MERGE, **params: Any) -> Object:
        """Patch an object."""
        headers = {"Content-Type": f"application/{kind}"}
        patched: Object = self._request("PATCH", path, params=params, headers=headers, content=json.dumps(body)).json()
        return patched

    def delete(self, path: str, **params: Any) -> None:
        """Delete an object, if it exists."""
        response = self.http.delete(path, params=params)
        if response.status_code != 404:
            _checked(response)

    def text(self, path: str, **params: Any) -> str:
        """Read a plain-text response, such as a log."""
        return self._request("GET", path, params=params).text

    def lines(self, path: str, **params: Any) -> Iterator[str]:
        """Stream the lines of a response."""
        with self.http.stream("GET", path, params=params) as response:
            if not response.is_success:
                response.read()
            yield from _checked(response).iter_lines()

    def _request(self, method: str, path: str, **options: Any) -> httpx2.Response:
        return _checked(self.http.request(method, path, **options))


def path_of(body: Object, namespace: str | None = None, *, named: bool = True) -> str:
    """The path of an object, or of its list if not `named`."""
    version, kind, meta = body["apiVersion"], body["kind"], body["metadata"]
    plural = PLURALS.get(kind, f"{kind.lower()}s")
    scope = "" if kind in CLUSTER_SCOPED else f"namespaces/{namespace or meta.get('namespace', 'default')}/"
    list_path = f"/{'apis' if '/' in version else 'api'}/{version}/{scope}{plural}"
    return f"{list_path}/{meta['name']}" if named else list_path


def make_context(authority: Path) -> ssl.SSLContext:
    """A TLS context that trusts one certificate authority."""
    return ssl.create_default_context(cafile=authority)


def until(check: Callable[[], T | None], seconds: float = TIMEOUT) -> T:
    """Call a function until its result is true, and return the result."""
    deadline = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < deadline, f"the condition was not met within {seconds} s"
        time.sleep(0.02)
    return value


def _checked(response: httpx2.Response) -> httpx2.Response:
    if not response.is_success:
        raise ApiError(response)
    return response
