"""A reader of the campaign: looks at all views at once, again and again, and writes down what it saw, with the times.

Run as `<folder> <file>`; it goes on until its standard input ends. Of looks that show the same one after the other the first
and the last are kept: those between say nothing more.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import _neighbours  # noqa: F401  # puts the folders beside this one on the path
from scene import Look, look
from writer import is_over, opened

from viewkeeper.errors import RetryError, StorageError

PAUSE = 0.2


def main(folder: str, path: Path) -> None:
    db = opened(folder)
    last: Look | None = None
    repeated: Look | None = None
    with path.open("w") as lines:
        while db is not None and not is_over(PAUSE):
            try:
                found = look(db)
            except (RetryError, StorageError):
                continue
            if last is not None and (found["seen"], found["cut"]) == (last["seen"], last["cut"]):
                repeated = found
                continue
            for kept in (repeated, found):
                if kept is not None:
                    lines.write(json.dumps(kept) + "\n")
            lines.flush()
            last, repeated = found, None
        if repeated is not None:
            lines.write(json.dumps(repeated) + "\n")


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
