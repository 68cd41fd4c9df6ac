"""Renews access during long requests: permissions are checked again, and the run is marked as used."""

import time
from collections.abc import Awaitable, Callable

from anyio.abc import TaskGroup

from fairlead.errors import FairleadError, Unavailable


class AccessRenewal:
    """Access to a run during one request or WebSocket. `authorize` checks permissions again and raises if it fails."""

    def __init__(self, authorize: Callable[[], Awaitable[object]], interval_seconds: float) -> None:
        self._authorize, self._interval = authorize, interval_seconds
        self._renewed_at = time.monotonic()
        self.error: FairleadError | None = None

    def on_activity(self, tasks: TaskGroup) -> None:
        """Call this whenever data is sent. Renews access if it is due, and cancels `tasks` if access was revoked."""
        # A timer is not used, because an idle connection must not keep an unused workspace from being stopped.
        if time.monotonic() - self._renewed_at >= self._interval:
            # Set before the check ends, so that data sent during the check does not start a second one.
            self._renewed_at = time.monotonic()
            tasks.start_soon(self._renew, tasks)

    async def _renew(self, tasks: TaskGroup) -> None:
        try:
            await self._authorize()
        except Unavailable:
            return  # an unavailable run or database does not mean that access was revoked
        except FairleadError as error:
            self.error = error
            tasks.cancel_scope.cancel()
