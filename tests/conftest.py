"""Its presence puts this folder on the path, so that tests in every folder below can import `support`."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

# The tests start many short-lived Javas on few cores: compiling hot code once more, and better, costs more than it saves.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

# A busy machine is no fault: no example has a deadline, and none is drawn too slowly.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
