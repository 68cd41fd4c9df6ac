"""A client of the real API server for tests. It raises on error responses."""

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

PATIENCE = 60.0  # seconds: a busy machine takes several times as long as a quiet one
PLURALS = {"NetworkPolicy": "networkpolicies", "StorageClass": "storageclasses", "PriorityClass": "priorityclasses"}
WITHOUT_NAMESPACE = {
    *("Namespace", "Node", "PersistentVolume", "StorageClass", "PriorityClass", "RuntimeClass"),
    *("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition"),
}
MERGE, STRATEGIC, APPLY = "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"


class Refused(Exception):
    """The server said no; in its words."""

    def __init__(self, answer: httpx2.Response) -> None:
        self.status, self.body = answer.status_code, answer.text
        super().__init__(
            f"{answer.request.method} {answer.request.url.path}: {answer.status_code} {answer.text[:2000]}"
        )


class Client:
    """Objects of a cluster, by their address such as /api/v1/namespaces/x/pods/y."""

    def __init__(self, url: str, authority: Path, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        verify = make_context(authority)
        self.http = httpx2.Client(base_url=url, headers=headers, verify=verify, timeout=PATIENCE, trust_env=False)

    def __enter__(self) -> "Client":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections."""
        self.http.close()

    def get(self, path: str, **params: Any) -> Any:
        """An object, or a list of them."""
        return self._ask("GET", path, params=params).json()

    def find(self, path: str) -> Object | None:
        """Get an object, or None if it does not exist."""
        answer = self.http.get(path)
        return None if answer.status_code == 404 else _checked(answer).json()

    def items(self, path: str, **params: Any) -> list[Object]:
        """The objects of a list."""
        items: list[Object] = self.get(path, **params)["items"]
        return items

    def create(self, body: Object, namespace: str | None = None, **params: Any) -> Object:
        """Create an object, by default in the namespace of its metadata."""
        made: Object = self._ask("POST", path_of(body, namespace, named=False), params=params, json=body).json()
        return made

    def post(self, path: str, body: Object, **params: Any) -> Any:
        """Send a POST request and return the response."""
        return self._ask("POST", path, params=params, json=body).json()

    def patch(self, path: str, body: Object, kind: str = MERGE, **params: Any) -> Object:
        """Change an object."""
        headers = {"Content-Type": f"application/{kind}"}
        changed: Object = self._ask("PATCH", path, params=params, headers=headers, content=json.dumps(body)).json()
        return changed

    def delete(self, path: str, **params: Any) -> None:
        """Delete an object; one that is not there is as good as deleted."""
        answer = self.http.delete(path, params=params)
        if answer.status_code != 404:
            _checked(answer)

    def text(self, path: str, **params: Any) -> str:
        """Read a plain-text response, such as a log."""
        return self._ask("GET", path, params=params).text

    def lines(self, path: str, **params: Any) -> Iterator[str]:
        """The lines of an answer, as they come."""
        with self.http.stream("GET", path, params=params) as answer:
            if not answer.is_success:
                answer.read()
            yield from _checked(answer).iter_lines()

    def _ask(self, method: str, path: str, **options: Any) -> httpx2.Response:
        return _checked(self.http.request(method, path, **options))


def path_of(body: Object, namespace: str | None = None, *, named: bool = True) -> str:
    """The address of an object, or of the list that it belongs to."""
    version, kind, meta = body["apiVersion"], body["kind"], body["metadata"]
    plural = PLURALS.get(kind, f"{kind.lower()}s")
    where = "" if kind in WITHOUT_NAMESPACE else f"namespaces/{namespace or meta.get('namespace', 'default')}/"
    listed = f"/{'apis' if '/' in version else 'api'}/{version}/{where}{plural}"
    return f"{listed}/{meta['name']}" if named else listed


def make_context(authority: Path) -> ssl.SSLContext:
    """A TLS context that trusts one certificate authority."""
    return ssl.create_default_context(cafile=authority)


def until(check: Callable[[], T | None], seconds: float = PATIENCE) -> T:
    """The first answer that is true."""
    end = time.monotonic() + seconds
    while not (value := check()):
        assert time.monotonic() < end, f"did not come true within {seconds} s"
        time.sleep(0.02)
    return value


def _checked(answer: httpx2.Response) -> httpx2.Response:
    if not answer.is_success:
        raise Refused(answer)
    return answer
