"""The wheel, as somebody gets it who has no checkout."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent


def run(*command: object, folder: Path) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    if "No matching distribution found for hatchling" in done.stdout + done.stderr:
        pytest.skip("hatchling is not installed, and no package index can be reached")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.slow
def test_the_wheel_runs_in_an_empty_environment(tmp_path: Path) -> None:
    """The dependencies are those of this environment, through a path file: PySpark alone is 450 MB to install again.

    A path file does not read the path files of the folder that it names, so the checkout, which is installed by one, is
    not seen: what runs is the wheel.
    """
    isolated = [] if importlib.util.find_spec("hatchling") is None else ["--no-isolation"]
    run(sys.executable, "-m", "build", "--wheel", *isolated, "--outdir", tmp_path, ROOT, folder=tmp_path)
    (wheel,) = tmp_path.glob("viewkeeper-*.whl")

    home = tmp_path / "empty"
    venv.create(home, with_pip=False)
    python = home / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel, folder=tmp_path)
    packages = Path(
        run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))", folder=tmp_path).strip()
    )
    (packages / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")

    place = run(python, "-c", "import viewkeeper; print(viewkeeper.__file__)", folder=tmp_path).strip()
    assert Path(place).is_relative_to(home), "it is the wheel's"
    command = home / "bin" / "viewkeeper"
    assert "Keeps materialized views true" in run(command, "--help", folder=tmp_path)
    run(command, "init", "--db", "shop.vk", folder=tmp_path)
    create = "CREATE TABLE t (id INT PRIMARY KEY)"
    run(command, "sql", "-c", create, "--db", "shop.vk", folder=tmp_path)
    run(command, "put", "t", "id=1", "--db", "shop.vk", folder=tmp_path)
    assert run(command, "scan", "t", "-f", "json", "--db", "shop.vk", folder=tmp_path) == '{"id": 1}\n'
    assert (packages / "viewkeeper" / "py.typed").exists()
