"""How somebody goes on to speak to a run: now and then they are let in anew, which also tells that it is used."""

import time
from collections.abc import Awaitable, Callable

from anyio.abc import TaskGroup

from fairlead.errors import FairleadError, Unavailable


class AccessRenewal:
    """One exchange with a run. `admit` lets its caller in once more, or raises."""

    def __init__(self, admit: Callable[[], Awaitable[object]], every_seconds: float) -> None:
        self._admit, self._every = admit, every_seconds
        self._renewed_at = time.monotonic()
        self.refused: FairleadError | None = None

    def go_on(self, tasks: TaskGroup) -> None:
        """Note that something was sent, either way. Whoever is not let in any more is broken off."""
        if time.monotonic() - self._renewed_at >= self._every:
            self._renewed_at = time.monotonic()
            tasks.start_soon(self._renew, tasks)

    async def _renew(self, tasks: TaskGroup) -> None:
        try:
            await self._admit()
        except Unavailable:
            return  # that a run or a database does not answer says nothing of rights
        except FairleadError as error:
            self.refused = error
            tasks.cancel_scope.cancel()
