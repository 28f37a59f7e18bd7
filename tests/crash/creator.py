"""Another process, that makes the table `left` again."""

from __future__ import annotations

import sys
from pathlib import Path

from scenes import LEFT

from viewkeeper.store.embedded import EmbeddedStore
from viewkeeper.store.embedded.files import Files

if __name__ == "__main__":
    # Not `EmbeddedStore.open`: that would finish the drop first, and the test is about one that nobody has finished.
    store = EmbeddedStore(Files(Path(sys.argv[1]), synchronous="FULL", timeout=30.0))
    store.create(LEFT)
    store.close()
    print("made", flush=True)
