"""Cookies with the `__Host-` prefix if the server uses TLS, so that no other host can set them."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Literal

from fastapi import Response
from starlette.types import Scope

from fairlead.errors import Unauthenticated


class Cookie:
    """A cookie of this host. A cookie with the prefix always has the path `/`."""

    def __init__(self, name: str, url: str, path: str = "/") -> None:
        self.is_secure = url.startswith("https://")  # browsers ignore secure cookies sent over plain HTTP
        self.name, self.path = (f"__Host-{name}", "/") if self.is_secure else (name, path)

    def read(self, scope: Scope) -> str | None:
        """The value in a request. Raises `Unauthenticated` if there is more than one."""
        prefix = f"{self.name}="
        values = [cookie.removeprefix(prefix) for cookie in read_cookies(scope) if cookie.startswith(prefix)]
        # Without the prefix, a page at another host or port could have added one of them (cookie tossing).
        if len(values) > 1:
            message = f"this browser sent {len(values)} cookies named {self.name}"
            raise Unauthenticated(message, "delete this site's cookies in the browser, then sign in again")
        return values[0] if values else None

    def set(
        self, response: Response, value: str, lifetime: timedelta, samesite: Literal["lax", "strict"] = "lax"
    ) -> None:
        """Set the cookie. It expires after `lifetime`."""
        response.set_cookie(
            self.name,
            value,
            max_age=int(lifetime.total_seconds()),
            path=self.path,
            httponly=True,
            samesite=samesite,
            secure=self.is_secure,
        )

    def delete(self, response: Response) -> None:
        """Delete the cookie."""
        response.delete_cookie(self.name, path=self.path, secure=self.is_secure)


def read_cookies(scope: Scope) -> Iterator[str]:
    """The cookies of a request as `name=value`."""
    for name, value in scope["headers"]:
        if name == b"cookie":
            # Python's strip() also removes U+0085 and U+00A0. A browser takes a name that begins with one of them for
            # one without the prefix, so another host can set it.
            parts = (part.strip(" \t") for part in value.decode("latin-1").split(";"))
            yield from filter(None, parts)
