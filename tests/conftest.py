"""Its presence puts this folder on the path, so that tests in every folder below can import `support`."""

from __future__ import annotations

import os

# The tests start many short-lived Javas on few cores: compiling hot code once more, and better, costs more than it saves.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
