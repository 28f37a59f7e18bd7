"""What a run ran on."""

from __future__ import annotations

import functools
import os
import platform
import re
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import adbc_driver_sqlite.dbapi

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


def facts(folder: Path) -> dict[str, Any]:
    """`folder` is where the databases were."""
    return {
        "cores": os.cpu_count(),
        "processor": _processor(),
        "memory_mb": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20,
        "system": f"{platform.system()} {platform.machine()}",
        "file_system": _file_system(folder.resolve()),
        "python": sys.version.split()[0],
        "java": _java(),
        "sqlite": _sqlite(),
        "libraries": {name: _version(name) for name in LIBRARIES},
    }


def load() -> float:
    """How many processes wanted a core, over the last minute: what others do beside a run spoils its figures."""
    return round(os.getloadavg()[0], 2)


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None


def _processor() -> str:
    lines = _text(Path("/proc/cpuinfo"))
    found = re.search(r"^model name\s*: (.*)$", lines, re.MULTILINE)
    return found[1] if found else platform.processor() or "unknown"


def _file_system(folder: Path) -> str:
    """Of the longest mount point that the folder is below."""
    mounts = [line.split()[1:3] for line in _text(Path("/proc/mounts")).splitlines()]
    below = [(point, kind) for point, kind in mounts if folder.is_relative_to(point)]
    return max(below, key=lambda mount: len(mount[0]))[1] if below else "unknown"


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


@functools.cache
def _java() -> str:
    """As Spark looks for it."""
    home = os.environ.get("JAVA_HOME")
    command = [str(Path(home) / "bin" / "java") if home else "java", "-version"]
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
    except OSError:
        return "unknown"
    found = re.search(r'version "([^"]+)"', said)
    return found[1] if found else "unknown"


@functools.cache
def _sqlite() -> str:
    with adbc_driver_sqlite.dbapi.connect(":memory:") as connection, connection.cursor() as cursor:
        cursor.execute("SELECT sqlite_version()")
        row = cursor.fetchone()
        return "unknown" if row is None else str(row[0])
