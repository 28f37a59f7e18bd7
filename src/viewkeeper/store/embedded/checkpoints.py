"""Journals are brought into their files beside whoever writes, and not in the middle of his commit.

SQLite appends what is written to a journal (its WAL), and now and then copies the pages of the journal to their places in
the file: a checkpoint. Left to itself it does so within the commit that makes the journal too long. Of an epoch of a
thousand rows in places of their own that is the longest part, and the longer the more pages the file has. Nobody needs it
to go on: what is committed is on the disk, in the journal, where readers find it. So a thread does it that lasts as long as
there is something to do, through a connection of its own. It keeps no writer and no reader waiting (SQLite's PASSIVE), and
ends early where a reader still needs the file as it was.

Nothing depends on it. Where it fails, or the process ends first, the journal stays, and is looked at again after the next
writes, by SQLite itself if it becomes very long (`LONGEST`), or when the file's last connection is closed. Where somebody
writes without a pause it never reaches the end of the journal, which then grows to that length.
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
"""Pages written to a file before its journal is brought into it, as SQLite has it by itself. They are guessed: one for each row,
and one for every four thousand bytes."""

LONGEST = 8 * AFTER
"""Pages of a journal from which on SQLite makes commits wait for a checkpoint, unless one is on its way here."""

_busy: set[Checkpoints] = set()
"""Those with a file open. A database may be let go of, and collected, while there is one."""


class Checkpoints:
    """Of the files of one pool, by one process."""

    def __init__(self, connect: Callable[[Path], Connection]) -> None:
        self._connect = connect
        self._changed = threading.Condition()
        self._pages: dict[Path, int] = {}
        self._waiting: list[Path] = []
        self._running: list[tuple[int, Path]] = []
        """By the number of the thread: there is one as a rule, and two if an interrupt came while it was being started."""
        self._at_work = False
        self._ended = False

    def written(self, path: Path, pages: int) -> None:
        """So much may have been written to a file."""
        with self._changed:
            self._pages[path] = self._pages.get(path, 0) + pages
            if self._pages[path] < AFTER or self._ended:
                return
            del self._pages[path]
            if path not in self._waiting:
                self._waiting.append(path)
            if not self._at_work:
                self._start()

    def leave(self, under: Path | None = None) -> None:
        """No file under a folder, or none at all, is open here when this returns, or will be until it is written to again.

        Who calls may be the thread itself, where a database is collected that nobody has any more: it does not wait for itself.
        """
        with self._changed:
            for path in [path for path in self._pages if _is_under(path, under)]:
                del self._pages[path]
            self._waiting = [path for path in self._waiting if not _is_under(path, under)]
            self._changed.wait_for(lambda: not any(_is_under(path, under) for path in self._of_others()))

    def _of_others(self) -> list[Path]:
        return [path for thread, path in self._running if thread != threading.get_ident()]

    def end(self) -> None:
        """The same for all files, for good."""
        with self._changed:
            self._ended = True
        self.leave()

    def _start(self) -> None:
        """A thread, unless there is none to be had: to a process that ends, or has too many. Rows are written all the same."""
        thread = threading.Thread(target=self._work, name="viewkeeper-checkpoints", daemon=True)
        self._at_work = True
        try:
            thread.start()
        except RuntimeError:
            pass
        finally:
            self._at_work = thread.ident is not None

    def _work(self) -> None:
        """No error ends it: whoever leaves waits for it."""
        while (path := self._next()) is not None:
            with suppress(Exception), closing(self._connect(path)) as connection:
                connection.query_few("PRAGMA wal_checkpoint(PASSIVE)")

    def _next(self) -> Path | None:
        """What this thread is to do now that it has done the last."""
        me = threading.get_ident()
        with self._changed:
            path = self._waiting.pop(0) if self._waiting else None
            self._running = [one for one in self._running if one[0] != me] + ([] if path is None else [(me, path)])
            self._at_work = path is not None
            (_busy.add if self._running else _busy.discard)(self)
            self._changed.notify_all()
            return path


def leave_all() -> None:
    """No file is open here, whosever it was."""
    for one in list(_busy):
        one.leave()


def _is_under(path: Path, folder: Path | None) -> bool:
    return folder is None or folder in path.parents
