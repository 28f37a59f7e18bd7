"""Journals are brought into their files beside whoever writes, and not in the middle of his commit.

SQLite appends what is written to a journal (its WAL), and now and then copies the pages of the journal to their places in
the file: a checkpoint. Left to itself it does so within the commit that makes the journal too long. Of an epoch of a
thousand rows in places of their own that is the longest part, and the longer the more pages the file has. Nobody
needs it to go on: what is committed is on the disk, in the journal, where readers find it. So a thread does it that lasts as
long as there is something to do, through a connection of its own. It takes no lock that a writer or a reader waits for
(SQLite's PASSIVE), and ends early where a reader still needs the file as it was.

Nothing depends on it. Where it fails, or the process ends first, the journal stays, and is looked at again after the next
writes, by SQLite itself if it becomes very long (`LONGEST`), or when the file's last connection is closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from viewkeeper.store.embedded.connection import Connection

AFTER = 1_000
"""Pages written to a file before its journal is brought into it, as SQLite has it by itself. The count is a guess from above:
a page for each row, and one for every four thousand bytes."""

LONGEST = 8 * AFTER
"""Pages of a journal at which SQLite makes a commit wait for a checkpoint: whoever writes faster than this thread has to."""


class Checkpoints:
    """Of the files of one pool, by one process."""

    def __init__(self, connect: Callable[[Path], Connection]) -> None:
        self._connect = connect
        self._changed = threading.Condition()
        self._pages: dict[Path, int] = {}
        self._waiting: list[Path] = []
        self._running: Path | None = None
        self._at_work = False

    def written(self, path: Path, pages: int) -> None:
        """So much has been committed to a file."""
        with self._changed:
            self._pages[path] = self._pages.get(path, 0) + pages
            if self._pages[path] < AFTER:
                return
            del self._pages[path]
            if path not in self._waiting:
                self._waiting.append(path)
            if not self._at_work:
                self._start()

    def leave(self, under: Path | None = None) -> None:
        """No file under a folder, or none at all, is open here when this returns, or will be until it is written to again."""
        with self._changed:
            for path in [path for path in self._pages if _is_under(path, under)]:
                del self._pages[path]
            self._waiting = [path for path in self._waiting if not _is_under(path, under)]
            self._changed.wait_for(lambda: self._running is None or not _is_under(self._running, under))

    def _start(self) -> None:
        """A thread, unless there is none to be had: to a process that ends, or has too many. The rows are committed all the same.

        An interrupt in between leaves no thread, and none is started any more: better than two at once.
        """
        self._at_work = True
        try:
            threading.Thread(target=self._work, name="viewkeeper-checkpoints", daemon=True).start()
        except RuntimeError:
            self._at_work = False

    def _work(self) -> None:
        while True:
            with self._changed:
                self._running = self._waiting.pop(0) if self._waiting else None
                self._at_work = self._running is not None
                self._changed.notify_all()
                if self._running is None:
                    return
                path = self._running
            with (
                suppress(Exception),
                closing(self._connect(path)) as connection,
            ):  # whoever leaves waits for this thread
                connection.query_few("PRAGMA wal_checkpoint(PASSIVE)")


def _is_under(path: Path, folder: Path | None) -> bool:
    return folder is None or folder in path.parents
