"""The scaffolding: what `make` offers, and what setup says on a machine that lacks something.

Setup runs in a copy of its script, with a PATH that holds nothing but stand-ins, so it neither sees nor changes this
machine.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tomllib
from dataclasses import dataclass, field
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
TARGETS = ["help", "setup", "demo", "test", "check", "fix", "bench", "chaos", "build", "clean"]

GOOD_PYTHON = 'case "$*" in *version_info*) echo 3.12 ;; esac'
OLD_PYTHON = 'case "$*" in *version_info*) echo 3.9 ;; esac'
NO_VENV = 'case "$*" in *version_info*) echo 3.12 ;; *ensurepip*) exit 1 ;; esac'
GOOD_JAVA = """echo 'openjdk version "17.0.15" 2025-04-15' >&2"""
OLD_JAVA = """echo 'java version "1.8.0_392"' >&2"""
BROKEN = "echo 'Unable to locate a Java Runtime.' >&2; exit 1"


def _tool(name: str) -> str:
    found = shutil.which(name)
    assert found is not None, f"these tests need {name}"
    return found


@dataclass
class Machine:
    """A clone of the project's setup, on a machine that has only what `has` put there."""

    home: Path
    variables: dict[str, str] = field(default_factory=dict)

    @property
    def clone(self) -> Path:
        return self.home / "clone"

    def has(self, name: str, script: str, folder: str = "bin") -> None:
        path = self.home / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"#!{_tool('bash')}\n{script}\n")
        path.chmod(0o755)

    def setup(self) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": str(self.home / "bin"), **self.variables}
        command = [_tool("bash"), str(self.clone / "scripts" / "setup.sh")]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    def complaint(self) -> str:
        """What setup says when it refuses: one sentence, and nothing made."""
        done = self.setup()
        assert (done.returncode, done.stdout) == (1, "")
        assert not (self.clone / ".venv").exists()
        assert done.stderr.startswith("setup: ")
        assert done.stderr.endswith(".\n")
        assert done.stderr.count("\n") == 1
        return done.stderr.removeprefix("setup: ").removesuffix("\n")


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    (tmp_path / "bin").mkdir()
    scripts = tmp_path / "clone" / "scripts"
    scripts.mkdir(parents=True)
    shutil.copy(ROOT / "scripts" / "setup.sh", scripts)
    return Machine(tmp_path)


def test_java_is_missing(machine: Machine) -> None:
    machine.has("python3", GOOD_PYTHON)
    assert machine.complaint() == (
        "Spark needs Java 17 or newer and found none: install one (Debian and Ubuntu: apt install "
        "openjdk-17-jre-headless or openjdk-21-jre-headless), or name its folder with JAVA_HOME."
    )


def test_java_is_a_placeholder_that_fails(machine: Machine) -> None:
    machine.has("python3", GOOD_PYTHON)
    machine.has("java", BROKEN)
    assert machine.complaint().startswith("Spark needs Java 17 or newer and found none: install one ")


def test_java_is_too_old(machine: Machine) -> None:
    machine.has("python3", GOOD_PYTHON)
    machine.has("java", OLD_JAVA)
    assert machine.complaint().startswith("Spark needs Java 17 or newer and found Java 8: install one ")


def test_java_home_goes_before_the_path(machine: Machine) -> None:
    machine.has("python3", GOOD_PYTHON)
    machine.has("java", GOOD_JAVA)
    machine.has("java", OLD_JAVA, folder="jdk8/bin")
    machine.variables["JAVA_HOME"] = home = str(machine.home / "jdk8")
    assert machine.complaint().startswith(f"Spark needs Java 17 or newer and found Java 8 in JAVA_HOME ({home}): ")


def test_python_is_missing(machine: Machine) -> None:
    machine.has("java", GOOD_JAVA)
    assert machine.complaint() == (
        "viewkeeper needs Python 3.11 to 3.14 and found none: install one, or name it with PYTHON=/path/to/python3."
    )


def test_python_is_too_old(machine: Machine) -> None:
    machine.has("java", GOOD_JAVA)
    machine.has("python3", OLD_PYTHON)
    assert machine.complaint().startswith("viewkeeper needs Python 3.11 to 3.14 and found Python 3.9 (python3): ")


def test_python_has_no_venv_module(machine: Machine) -> None:
    machine.has("java", GOOD_JAVA)
    machine.has("python3", NO_VENV)
    assert machine.complaint() == (
        "Python 3.12 has no venv module: install it (Debian and Ubuntu: apt install python3.12-venv)."
    )


def test_the_named_python_is_the_only_one_looked_at(machine: Machine) -> None:
    machine.has("java", GOOD_JAVA)
    machine.has("python3", GOOD_PYTHON)
    machine.has("old", OLD_PYTHON)
    machine.variables["PYTHON"] = "old"
    assert "found Python 3.9 (old)" in machine.complaint()


def test_setup_passes_over_a_python_that_will_not_do(machine: Machine) -> None:
    """The first good one makes .venv; the stamp comes last and names the folder."""
    machine.has("java", GOOD_JAVA)
    machine.has("python3", OLD_PYTHON)
    machine.has("python3.11", NO_VENV)
    pip = f'echo "$*" >>{machine.home}/pip.log'
    make_venv = f"""{_tool("mkdir")} -p .venv/bin
        printf '%s\\n' '#!{_tool("bash")}' '{pip}' >.venv/bin/python; {_tool("chmod")} +x .venv/bin/python"""
    machine.has("python3.12", GOOD_PYTHON.replace("esac", f"*venv*--clear*) {make_venv} ;; esac"))
    machine.has("cat", f'{_tool("cat")} "$@"')

    done = machine.setup()

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[0] == "setup: 1/3 making .venv with Python 3.12"
    assert done.stdout.splitlines()[-1] == "setup: done"
    calls = (machine.home / "pip.log").read_text().splitlines()
    assert calls[-1].endswith("--constraint constraints.txt --editable .[dev]")
    assert (machine.clone / ".venv" / ".ready").read_text() == f"{machine.clone.resolve()}\n"


def _make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A make of its own: not a part of the one that may have started the tests."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS"))}
    command = [_tool("make"), *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("arguments", [(), ("help",)])
def test_make_lists_its_targets(arguments: tuple[str, ...]) -> None:
    done = _make(ROOT, *arguments)
    assert [line.split()[1] for line in done.stdout.splitlines()] == TARGETS
    assert all(len(line.split()) > 3 for line in done.stdout.splitlines()), "each has a description"


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """The Makefile beside a setup script that only counts its calls and leaves the stamp."""
    folder = tmp_path / "clone"
    (folder / "scripts").mkdir(parents=True)
    shutil.copy(ROOT / "Makefile", folder)
    for name in ("pyproject.toml", "constraints.txt"):
        (folder / name).touch()
    (folder / "scripts" / "setup.sh").write_text(
        "mkdir -p .venv/bin; touch .venv/bin/python; chmod +x .venv/bin/python; echo called; pwd -P >.venv/.ready\n"
    )
    return folder


def test_a_second_setup_does_nothing(clone: Path) -> None:
    assert _make(clone, "setup").stdout == "called\n"
    assert "called" not in _make(clone, "setup").stdout
    assert _make(clone, "-q", "setup").returncode == 0


@pytest.mark.parametrize("name", ["pyproject.toml", "constraints.txt"])
def test_setup_runs_again_when_what_it_installs_changes(clone: Path, name: str) -> None:
    _make(clone, "setup")
    later = (clone / ".venv" / ".ready").stat().st_mtime + 1
    os.utime(clone / name, (later, later))
    assert _make(clone, "setup").stdout == "called\n"


def test_setup_runs_again_in_a_copy(clone: Path) -> None:
    """A copied .venv would run the code of the folder that it was copied from."""
    _make(clone, "setup")
    copy = shutil.copytree(clone, clone.with_name("copy"))
    assert _make(copy, "setup").stdout == "called\n"


def test_setup_runs_again_when_the_interpreter_is_gone(clone: Path) -> None:
    _make(clone, "setup")
    (clone / ".venv" / "bin" / "python").unlink()
    assert _make(clone, "setup").stdout == "called\n"


def _lines(name: str) -> list[str]:
    lines = (ROOT / name).read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def test_constraints_are_exact_and_cover_what_the_project_asks_for() -> None:
    pinned = [re.fullmatch(r"([A-Za-z0-9._-]+)==[0-9][0-9.]*", line) for line in _lines("constraints.txt")]
    assert all(pinned), _lines("constraints.txt")
    names = {_normal(match[1]) for match in pinned if match}

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"]]
    assert {_normal(re.split(r"[^A-Za-z0-9._-]", requirement)[0]) for requirement in wanted} <= names


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


@pytest.mark.parametrize(
    ("failing", "steps"),
    [("none", ["setup", "check", "test", "demo"]), ("test", ["setup", "check", "test"]), ("setup", ["setup"])],
)
def test_ci_takes_each_step_until_one_fails(machine: Machine, failing: str, steps: list[str]) -> None:
    machine.has("java", GOOD_JAVA)
    machine.has("python3", GOOD_PYTHON)
    machine.has("make", f'echo "ran $*"; [[ "$*" != {failing} ]]')
    (machine.clone / ".ci").mkdir()
    script = Path(shutil.copy(ROOT / ".ci" / "run", machine.clone / ".ci"))

    environment = {"PATH": str(machine.home / "bin")}
    command = [_tool("bash"), str(script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)

    assert re.findall("^ran (.*)", done.stdout, re.MULTILINE) == steps
    assert (done.returncode == 0) == (failing == "none")
    assert os.access(ROOT / ".ci" / "run", os.X_OK)
