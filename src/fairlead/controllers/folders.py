"""The watched folder: its documents are applied when the server starts and whenever they change."""

import contextlib
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import structlog
import watchfiles

from fairlead.core.explanations import lines_of
from fairlead.errors import FairleadError, RequestRejected
from fairlead.files.documents import Library, load_library
from fairlead.ports import Clock

log = structlog.get_logger()

AGAIN_MILLISECONDS = 5_000


@dataclass(frozen=True)
class Look:
    """When the folder was last applied, and what is wrong with it since."""

    at: datetime | None = None
    problem: str | None = None


class WatchedFolder:
    """Applies a folder. What is wrong with it leaves everything as it was, and is told."""

    def __init__(self, folder: Path, apply: Callable[[Library], Any], clock: Clock) -> None:
        self.folder, self._apply, self._clock = folder, apply, clock
        self.last = Look()
        self._one = threading.Lock()

    def apply(self) -> None:
        """Make everything as the folder says."""
        with self._one:
            problem = self._try()
            self.last = Look(self._clock() if problem is None else self.last.at, problem)
            if problem is None:
                log.info("folder applied", folder=str(self.folder))
            else:
                log.error("folder refused", folder=str(self.folder), problem=problem)

    async def watch(self) -> None:
        """Apply the folder after each change, and again for as long as something is wrong with it."""
        while True:
            seen = self._identity()
            changes = watchfiles.awatch(
                self.folder,
                recursive=True,
                ignore_permission_denied=True,
                rust_timeout=AGAIN_MILLISECONDS,
                yield_on_timeout=True,
            )
            with contextlib.suppress(OSError):  # it is gone; it may come back
                async for changed in changes:
                    if changed or self.last.problem is not None:
                        await anyio.to_thread.run_sync(self.apply)
                    if self._identity() != seen:
                        break  # another folder stands in its place, of which this watch would never hear
            await anyio.sleep(AGAIN_MILLISECONDS / 1000)
            await anyio.to_thread.run_sync(self.apply)

    def _identity(self) -> tuple[int, int] | None:
        """What the path leads to now."""
        try:
            found = self.folder.stat()
        except OSError:
            return None
        return found.st_dev, found.st_ino

    def describe(self) -> dict[str, Any]:
        """The folder and the last look at it."""
        return {"path": str(self.folder), "applied_at": self.last.at, "problem": self.last.problem}

    def _try(self) -> str | None:
        try:
            library = load_library([(self.folder, "ComputeResource")])
            if not library.documents and not library.violations:
                # A folder that is not mounted looks like this, too, and must not take everything along.
                return "has no documents: everything stays as it is"
            self._apply(library)
        except RequestRejected as error:
            return "\n".join(line for found in error.violations for line in lines_of(found))
        except FairleadError as error:
            return f"{error}" + (f" ({error.hint})" if error.hint else "")
        except Exception as error:  # whatever it is, the watch goes on
            log.error("folder failed", folder=str(self.folder), exc_info=error)
            return "something went wrong on the server; its log has more"
        return None
