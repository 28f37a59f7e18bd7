"""How a command that needs no Spark starts: quickly. It is about the process as a whole, so the library does not do it."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from types import ModuleType


class WithoutPandas:
    """While it is on `sys.meta_path`, there is no pandas as long as there is no PySpark.

    Arrow looks for pandas when it makes its first array of Python values, and imports it if it is there: 0.2 seconds, half
    of what a point read takes from its start to its end. Rows from the command line are never a pandas frame. PySpark does
    want it, where a write brings immediate views along.
    """

    @staticmethod
    def find_spec(name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> None:
        """Refuses pandas; None leaves every other module to the finders that come after."""
        if name == "pandas" and "pyspark" not in sys.modules:
            raise ModuleNotFoundError("pandas is left out of commands that need no Spark", name=name)


def quick_start() -> None:
    """For the rest of this process, which most likely needs no Spark.

    NumPy would start a thread per core for linear algebra, of which there is none here.
    """
    sys.meta_path.insert(0, WithoutPandas)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
