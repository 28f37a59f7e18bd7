"""The benchmarks run and report; how fast anything is, no test says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bench.__main__ import main
from bench.registry import BENCHMARKS
from bench.report import Report, as_json
from bench.runner import Comparison, Outcome, Sample, Verdict, Way, Wrong, ceiling, compare, floor, single
from bench.settings import Settings

ROOT = Path(__file__).parent.parent


def test_the_store_benchmark_runs_and_writes_its_results(tmp_path: Path) -> None:
    options = ["--quick", "--scale", "small", "--json", str(tmp_path / "out"), "--folder", str(tmp_path)]
    command = [sys.executable, "-m", "bench", "store", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    written = json.loads((tmp_path / "out" / "store.quick.json").read_text())
    assert written["benchmark"] == "store"
    assert written["sizes"]["rows"] == 2_000
    assert {"cores", "memory_mb", "python", "libraries"} <= written["machine"].keys()
    assert len(written["results"]) > 10
    for result in written["results"]:
        assert result["problem"] is None
        assert result["ours"]["low"] <= result["ours"]["median"] <= result["ours"]["high"]
        assert result["verdict"] in {"ok", "below floor", "above ceiling", "for information"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "databases are removed"


def _way(log: list[str], name: str, problem: str | None = None) -> Way:
    def check(answers: Sequence[Any]) -> str | None:
        log.append(f"check {name} {list(answers)}")
        return problem

    def run(number: int) -> int:
        log.append(f"run {name}")
        return number

    return Way(run, check, lambda: log.append(f"prepare {name}"))


def test_ours_and_raw_run_in_turn_and_each_is_checked() -> None:
    log: list[str] = []
    found = list(compare(Comparison("x", _way(log, "ours"), _way(log, "raw"), repetitions=1, warmups=1)))
    assert log == [
        *("prepare ours", "run ours", "check ours [0]", "prepare raw", "run raw", "check raw [0]"),
        *("prepare ours", "run ours", "check ours [1]", "prepare raw", "run raw", "check raw [1]"),
    ]
    assert [outcome.verdict for outcome in found] == [Verdict.INFORMATION]
    assert found[0].ours is not None
    assert len(found[0].ours.repetitions) == 1, "a warm-up is no repetition"


@pytest.mark.parametrize("side", ["ours", "raw"])
def test_a_wrong_result_is_a_failure_and_no_figure(side: str) -> None:
    ways = [_way([], name, "3 rows instead of 4" if name == side else None) for name in ("ours", "raw")]
    (outcome,) = compare(Comparison("x", ways[0], ways[1], floor(0.0), p99=ceiling(1.0)))
    assert outcome == Outcome("x", problem=f"{side}: 3 rows instead of 4")
    assert outcome.verdict is Verdict.FAILED


def test_an_error_is_a_failure() -> None:
    def broken(number: int) -> None:
        raise ValueError("no such thing")

    (outcome,) = compare(Comparison("x", Way(broken, lambda _: None), _way([], "raw")))
    assert (outcome.verdict, outcome.problem) == (Verdict.FAILED, "ValueError: no such thing")

    def wrong() -> float:
        raise Wrong("not the same rows")

    assert single("y", "MB", wrong, ceiling(1.0)).problem == "not the same rows"


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (Outcome("x", ours=Sample((1.0,)), ratio=Sample((0.2, 0.3, 0.9)), limit=floor(0.3)), Verdict.OK),
        (Outcome("x", ours=Sample((1.0,)), ratio=Sample((0.2, 0.3, 0.9)), limit=floor(0.4)), Verdict.BELOW),
        (Outcome("x", ours=Sample((2.0,)), limit=ceiling(2.0)), Verdict.OK),
        (Outcome("x", ours=Sample((2.1,)), limit=ceiling(2.0)), Verdict.ABOVE),
        (Outcome("x", ours=Sample((2.1,))), Verdict.INFORMATION),
        (Outcome("x"), Verdict.FAILED),
    ],
)
def test_the_median_is_judged(outcome: Outcome, verdict: Verdict) -> None:
    assert outcome.verdict is verdict


MISSED = Outcome("slow", ours=Sample((1.0,)), raw=Sample((0.1,)), ratio=Sample((0.1,)), limit=floor(0.5))
WRONG = Outcome("wrong", problem='ours: column "price" differs')


@pytest.mark.parametrize(
    ("outcome", "options", "code", "shown"),
    [
        (MISSED, ["--quick"], 0, "below floor"),
        (MISSED, [], 1, "below floor"),
        (WRONG, ["--quick"], 1, 'failed wrong: ours: column "price" differs'),
    ],
)
def test_the_command_fails_by_what_it_found(
    outcome: Outcome,
    options: list[str],
    code: int,
    shown: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setitem(BENCHMARKS, "one", lambda settings: iter([outcome]))
    assert main(["one", *options, "--json", str(tmp_path), "--folder", str(tmp_path)]) == code
    assert shown in capsys.readouterr().out


def test_an_unknown_name_is_told_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stor"]) == 2
    assert 'benchmark "stor" does not exist: there are store' in capsys.readouterr().err


def test_a_failure_has_no_figures_in_json(tmp_path: Path) -> None:
    written = as_json(Report("one", Settings(tmp_path), "2024-02-29T00:00:00+00:00", 1.0, [WRONG]))
    (result,) = json.loads(json.dumps(written))["results"]
    assert (result["ours"], result["raw"], result["ratio"]) == (None, None, None)
    assert result["verdict"] == "failed"
