"""The documents' code runs, and prints what they say it prints."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n+```text\n(?P<output>.*?)```", re.DOTALL)
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "```python" in page.read_text()], ids=lambda page: page.name
)
def test_examples_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    examples = list(EXAMPLE.finditer(page.read_text()))
    assert len(examples) == page.read_text().count("```python"), "every example shows its output"
    for number, example in enumerate(examples):
        folder = tmp_path / str(number)
        folder.mkdir()
        run = subprocess.run(
            [sys.executable, "-W", "error", "-c", example["code"]],
            cwd=folder, capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        assert run.returncode == 0, run.stderr
        assert run.stdout == example["output"]


def test_links_between_pages_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"
