"""What a run ran on."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from typing import Any

LIBRARIES = (
    "viewkeeper",
    "pyarrow",
    "adbc-driver-sqlite",
    "adbc-driver-manager",
    "numpy",
    "pandas",
    "pyspark",
    "sqlglot",
)


def facts() -> dict[str, Any]:
    return {
        "cores": os.cpu_count(),
        "load": load(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "system": f"{platform.system()} {platform.machine()}",
        "python": sys.version.split()[0],
        "libraries": {name: _version(name) for name in LIBRARIES},
    }


def load() -> float:
    """How many processes want a core, over the last five minutes: above the number of cores no figure means much."""
    return round(os.getloadavg()[1], 2)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
