"""Where a campaign's database lies, so that its disk can run full and its files become unreadable.

A disk that can be filled is a file system in memory of its own, which only root can mount. Without root this fault is
left out, and the campaign says so.

A file that cannot be opened is, for anyone but root, one without permissions. Root may open anything but a socket, so there a
socket is mounted over the file. Either way the file itself is as it was: whoever has it open goes on with it, whoever
opens it anew fails, and when it is over nothing has changed.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

SIZE = 256
"""Megabytes of the file system in memory."""


@dataclass(frozen=True)
class Place:
    folder: Path
    can_be_filled: bool

    @contextmanager
    def full(self) -> Iterator[None]:
        """Not a byte is left on the disk. What others free meanwhile is taken too, when the block begins."""
        filler = self.folder / "filler"
        with filler.open("wb", buffering=0) as file:
            for size in (1 << 20, 4096, 1):
                with suppress(OSError):
                    while True:
                        file.write(bytes(size))
        try:
            yield
        finally:
            filler.unlink()

    @contextmanager
    def unreadable(self, path: Path) -> Iterator[None]:
        """Nobody can open the file."""
        hiding = _socket_over if os.geteuid() == 0 else _without_permissions
        with hiding(path):
            yield


@contextmanager
def prepared(folder: Path) -> Iterator[Place]:
    """A file system of its own if there can be one, which goes with the block."""
    folder.mkdir(parents=True)
    mounted = os.geteuid() == 0 and _run("mount", "-t", "tmpfs", "-o", f"size={SIZE}m", "viewkeeper", str(folder))
    try:
        yield Place(folder, mounted)
    finally:
        if mounted:
            _run("umount", "--lazy", str(folder))


@contextmanager
def _without_permissions(path: Path) -> Iterator[None]:
    mode = path.stat().st_mode
    path.chmod(0)
    try:
        yield
    finally:
        path.chmod(mode)


@contextmanager
def _socket_over(path: Path) -> Iterator[None]:
    with tempfile.TemporaryDirectory() as folder, socket.socket(socket.AF_UNIX) as plug:
        plug.bind(f"{folder}/plug")
        if not _run("mount", "--bind", f"{folder}/plug", str(path)):
            raise OSError(f"cannot mount over {path}")
        try:
            yield
        finally:
            _run("umount", "--lazy", str(path))


def _run(*command: str) -> bool:
    return subprocess.run(command, capture_output=True, check=False).returncode == 0
