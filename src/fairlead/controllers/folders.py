"""The watched folder: its documents are applied on startup and after each change."""

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

from fairlead.errors import FairleadError, RequestRejected
from fairlead.files.documents import Library, load_library
from fairlead.planning.explanations import format_finding
from fairlead.ports import Clock

log = structlog.get_logger()

RETRY_MILLISECONDS = 5_000  # also the longest time until a replaced folder is noticed


@dataclass(frozen=True)
class ApplyStatus:
    """When the folder was last applied, and what went wrong in the last attempt."""

    at: datetime | None = None  # time of the last successful apply; failures do not change it
    problem: str | None = None


class WatchedFolder:
    """Applies the documents in a folder: all of them, or none if any is invalid."""

    def __init__(self, folder: Path, apply: Callable[[Library], Any], clock: Clock) -> None:
        self.folder, self._apply, self._clock = folder, apply, clock
        self.status = ApplyStatus()
        self._lock = threading.Lock()

    def apply(self) -> None:
        """Apply the folder once and record the result in `status`."""
        with self._lock:
            problem = self._apply_documents()
            self.status = ApplyStatus(self._clock() if problem is None else self.status.at, problem)
            if problem is None:
                log.info("folder applied", folder=str(self.folder))
            else:
                log.error("folder rejected", folder=str(self.folder), problem=problem)

    async def watch(self) -> None:
        """Apply the folder after each change, and retry until it succeeds."""
        while True:
            # Read before the watch begins, so that we notice if the folder is replaced in the meantime.
            identity = self._identity()
            # Also yields after a timeout: a replaced folder causes no event, and rejected documents can become valid
            # without a change, for example when the last run that uses a removed object ends.
            changes = watchfiles.awatch(
                self.folder,
                recursive=True,
                ignore_permission_denied=True,  # an unreadable subfolder must not end the watch
                rust_timeout=RETRY_MILLISECONDS,
                yield_on_timeout=True,
            )
            with contextlib.suppress(OSError):  # the folder was removed and may reappear
                async for changed in changes:
                    if changed or self.status.problem is not None:
                        await anyio.to_thread.run_sync(self.apply)
                    if self._identity() != identity:
                        break  # the folder was replaced, and this watch does not see the new one
            # Changes between two watches cause no event, so the folder is always applied here.
            await anyio.sleep(RETRY_MILLISECONDS / 1000)
            await anyio.to_thread.run_sync(self.apply)

    def _identity(self) -> tuple[int, int] | None:
        """Device and inode of the folder."""
        try:
            status = self.folder.stat()
        except OSError:
            return None
        return status.st_dev, status.st_ino

    def describe(self) -> dict[str, Any]:
        """Return the folder's path, when it was last applied, and any problem, for the settings."""
        return {"path": str(self.folder), "applied_at": self.status.at, "problem": self.status.problem}

    def _apply_documents(self) -> str | None:
        try:
            library = load_library([(self.folder, "ComputeResource")])
            if not library.documents and not library.violations:
                # A folder that is not mounted also looks empty. That must not delete everything.
                return "the folder contains no documents, so nothing was changed"
            self._apply(library)
        except RequestRejected as error:
            return "\n".join(line for violation in error.violations for line in format_finding(violation))
        except FairleadError as error:
            return f"{error}" + (f" ({error.hint})" if error.hint else "")
        except Exception as error:  # the watch must continue
            log.error("folder failed", folder=str(self.folder), exc_info=error)
            return "internal error: see the server log"
        return None
