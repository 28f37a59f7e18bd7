"""Java's classes in one file: Spark takes them from there, and does without a file that is not for it."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

import viewkeeper as vk
from viewkeeper.engine import archive
from viewkeeper.errors import SparkFailed

STARTS = "from viewkeeper.engine.spark import Spark; Spark().session()"


def test_spark_takes_its_classes_from_the_archive(tmp_path: Path) -> None:
    if not archive.archive_path().exists():  # `make test` has made it
        archive.make_archive()
    loaded = tmp_path / "loaded.txt"
    options = f"{os.environ['SPARK_SUBMIT_OPTS']} -Xlog:class+load:file={loaded}"
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": options}
    done = subprocess.run([sys.executable, "-c", STARTS], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    spark = [line for line in loaded.read_text().splitlines() if " org.apache.spark." in line]
    mapped = [line for line in spark if "shared objects file" in line]
    assert len(mapped) > len(spark) / 2 > 1_000, "the others are made by Java as it runs, and lie in no jar"


@pytest.mark.parametrize("content", [b"", b"nothing of Java's" * 1_000], ids=["empty", "something else"])
def test_java_passes_over_what_is_no_archive_without_a_word(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "with a space"))
    assert archive.java_options() == ""
    archive.archive_path().parent.mkdir(parents=True)
    archive.archive_path().write_bytes(content)
    java = str(Path(os.environ["JAVA_HOME"]) / "bin" / "java") if "JAVA_HOME" in os.environ else "java"
    command = [java, *shlex.split(archive.java_options()), "-version"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


def test_where_nothing_can_be_written_that_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    (tmp_path / "share").write_text("a file where a folder should be")
    with pytest.raises(vk.ViewkeeperError, match="cannot be written: Not a directory"):
        archive.make_archive()


def test_a_spark_that_does_not_start_leaves_no_archive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "no such Java"))
    with pytest.raises(SparkFailed, match="no archive of Java's classes"):
        archive.make_archive()
    assert list((tmp_path / "share" / "viewkeeper").iterdir()) == []
