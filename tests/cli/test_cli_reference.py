"""The commands say of themselves what the page says, each with an example that can be typed."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from commands import Shell

from viewkeeper.cli.app import app
from viewkeeper.cli.reference import reference

ROOT = Path(__file__).parent.parent.parent
COMMANDS: dict[str, Any] = typer.main.get_command(app).commands  # type: ignore[attr-defined]  # it is a group
WANTED = [
    "init", "sql", "put", "get", "find", "scan", "delete", "import", "export", "refresh", "run", "status", "explain",
    "verify", "repair", "history", "changes", "demo", "bench", "prepare",
]  # fmt: skip


def test_the_page_is_current() -> None:
    page = ROOT / "docs" / "cli.md"
    assert page.read_text() == reference(), "make it anew: python -m viewkeeper.cli.reference > docs/cli.md"


def test_every_command_is_there() -> None:
    assert sorted(COMMANDS) == sorted(WANTED)


def _examples() -> list[str]:
    return re.findall(
        r"^.*?(viewkeeper .+)$", "\n".join(re.findall(r"```sh\n(.*?)```", reference(), re.DOTALL)), re.MULTILINE
    )


def test_every_command_has_an_example() -> None:
    assert {shlex.split(example)[1] for example in _examples()} == set(WANTED)


@pytest.mark.parametrize("example", _examples())
def test_examples_can_be_typed(example: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """As far as the parser is concerned: it knows every option, and misses none."""
    monkeypatch.setenv("VIEWKEEPER_DB", "shop.vk")
    _, name, *arguments = shlex.split(example)
    COMMANDS[name].make_context(name, arguments)


@pytest.mark.parametrize("name", ["get", "import", "status"])
def test_help_ends_with_the_example(name: str, tmp_path: Path) -> None:
    done = Shell(tmp_path, tmp_path / "shop.vk").ok(name, "--help")
    assert done.out.startswith(f"Usage: viewkeeper {name} ")
    assert f"Example:\n    viewkeeper {name} " in done.out
    assert "\x1b" not in done.out


def test_python_m_and_completion(tmp_path: Path) -> None:
    shell = Shell(
        tmp_path, tmp_path / "shop.vk", {"_VIEWKEEPER_COMPLETE": "complete_bash", "COMP_WORDS": "viewkeeper st"}
    )
    shell.variables["COMP_CWORD"] = "1"
    done = subprocess.run(
        [sys.executable, "-c", "import sys; from viewkeeper.cli import main; sys.exit(main([]))"],
        env=shell.environment(), cwd=tmp_path, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.stdout.split() == ["status"], done.stderr
    nothing = Shell(tmp_path, tmp_path / "shop.vk")()
    assert nothing.code == 2
    assert "Commands:" in nothing.out + nothing.err
