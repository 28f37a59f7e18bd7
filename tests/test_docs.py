"""The documents' code runs and prints what they say it prints, and what they point at is there."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXAMPLE = re.compile(r"```python\n(?P<code>.*?)```\n+```text\n(?P<output>.*?)```", re.DOTALL)
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TIMEOUT = 240.0
"""Seconds for the examples of a page. Most need Spark, which takes a few to start."""


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


RUN = """
import contextlib, io, json, os, sys
printed = []
for number, code in enumerate(json.load(sys.stdin)):
    os.mkdir(str(number))
    with contextlib.redirect_stdout(io.StringIO()) as out, contextlib.chdir(str(number)):
        exec(compile(code, f"example {number}", "exec"), {"__name__": "__main__"})
    printed.append(out.getvalue())
json.dump(printed, sys.stdout)
"""
"""A process for all examples of a page, each with names and a folder of its own: starting Spark is what takes the time."""


@pytest.mark.parametrize("page", [page for page in PAGES if "```python" in page.read_text()], ids=name)
def test_examples_print_what_the_page_says(page: Path, tmp_path: Path) -> None:
    examples = list(EXAMPLE.finditer(page.read_text()))
    assert len(examples) == page.read_text().count("```python"), "every example shows its output"
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", RUN],
        input=json.dumps([example["code"] for example in examples]),
        cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == [example["output"] for example in examples]


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\((?!http)([^)#]+)\)", page.read_text()):
        assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_tests_that_are_named_exist(page: Path) -> None:
    """`tests/file.py::test`, or a test by its name alone, which some module of the contract or the tests has."""
    text = page.read_text()
    for path, test in re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", text):
        assert f"def {test}(" in (ROOT / path).read_text() if test else (ROOT / path).exists(), f"{path}::{test}"
    sources = [*(ROOT / "tests").rglob("*.py"), *(ROOT / "src/viewkeeper/testing").rglob("*.py")]
    everything = "\n".join(source.read_text() for source in sources)
    for test in re.findall(r"`(test_\w+)`", text):
        assert f"def {test}(" in everything, test


def test_the_architecture_is_short_and_names_modules_that_exist() -> None:
    text = (ROOT / "docs/ARCHITECTURE.md").read_text()
    assert len(text.splitlines()) < 150
    package = ROOT / "src/viewkeeper"
    named = re.findall(r"`([\w/]+\.py)`", text)
    assert len(named) > 20
    for path in named:
        found = any((place / path).exists() for place in (ROOT, package, package / "store/embedded"))
        assert found, path


def test_every_package_is_in_the_architecture() -> None:
    text = (ROOT / "docs/ARCHITECTURE.md").read_text()
    for package in (path.parent for path in (ROOT / "src/viewkeeper").glob("*/__init__.py")):
        assert f"{package.name}/" in text, package.name
