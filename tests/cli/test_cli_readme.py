"""What the pages show of a shell session is what happens in one."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

import pytest
from commands import COMMAND, TIMEOUT, Shell

ROOT = Path(__file__).parent.parent.parent
SESSION = re.compile(r"```console\n(.*?)```", re.DOTALL)
PAGES = [
    page for page in (ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))) if SESSION.search(page.read_text())
]


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_sessions_go_as_the_page_says(page: Path, tmp_path: Path) -> None:
    """In one shell, with the commands echoed as they are typed. `viewkeeper` is a script that a PATH leads to."""
    script = tmp_path / "bin" / "viewkeeper"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {shlex.join(COMMAND)} "$@"\n')
    script.chmod(0o755)
    session = "".join(SESSION.findall(page.read_text()))
    typed = re.findall(r"^\$ (.*)$", session, re.MULTILINE)
    shell = Shell(tmp_path, tmp_path / "unused.vk")
    environment = shell.environment()
    environment["PATH"] = f"{script.parent}:{environment['PATH']}"
    lines = [line for command in typed for line in (f"echo {shlex.quote('$ ' + command)}", command)]
    done = subprocess.run(
        ["bash", "-c", "exec 2>&1\n" + "\n".join(lines)],
        env=environment, cwd=tmp_path, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert done.stdout == session


def test_some_page_has_a_session() -> None:
    assert ROOT / "README.md" in PAGES
