"""A clock that all processes of a database share and that never goes back.

A stamp is the wall clock in nanoseconds, or one more than the last stamp if the wall clock is behind it. The last stamp
lies in a file under a lock. So a write that began after another was acknowledged has the greater stamp, whichever
processes they ran in and whatever was done to the machine's time: what `cut` stands on.
"""

from __future__ import annotations

import fcntl
import os
import struct
import threading
import time
from pathlib import Path

from viewkeeper.store.embedded.connection import closed, translated

_FORMAT = struct.Struct("<q")
CLOSED = -1


class Clock:
    """Stamps from one file. Safe between threads and processes; reopens itself after a fork."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._open()

    def _open(self) -> None:
        with translated(self._path):
            self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o644)
        self._process = os.getpid()

    def tick(self) -> int:
        """A stamp greater than every stamp given before, by any process."""
        with self._lock:
            if self._file == CLOSED:
                raise closed(self._path.parent)
            if self._process != os.getpid():
                self._open()
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX)  # inside: an interrupt comes right after it too
                data = os.pread(self._file, _FORMAT.size, 0)
                last = _FORMAT.unpack(data)[0] if len(data) == _FORMAT.size else 0
                stamp = max(last + 1, time.time_ns())
                with translated(self._path):
                    os.pwrite(self._file, _FORMAT.pack(stamp), 0)
                return stamp
            finally:
                fcntl.flock(self._file, fcntl.LOCK_UN)

    def close(self) -> None:
        """No more stamps: the number of the file may soon be another file's. In a fork the lock may be held by nobody."""
        if self._process != os.getpid():
            return
        with self._lock:
            if self._file != CLOSED:
                os.close(self._file)
            self._file = CLOSED
