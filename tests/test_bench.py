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
from bench.phases import STEPS, Watch, watched
from bench.registry import BENCHMARKS, Benchmark
from bench.report import Report, as_json
from bench.runner import Breakdown, Comparison, Outcome, Sample, Verdict, Way, Wrong, ceiling, compare, floor, single
from bench.settings import Settings
from bench.workload import Tables

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


@pytest.mark.slow
def test_the_views_benchmark_runs_and_proves_its_results(tmp_path: Path) -> None:
    options = ["--quick", "--scale", "small", "--json", str(tmp_path / "out"), "--folder", str(tmp_path)]
    command = [sys.executable, "-m", "bench", "views", *options]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr

    written = json.loads((tmp_path / "out" / "views.quick.json").read_text())
    assert (written["sizes"]["small_rows"], written["sizes"]["large_rows"]) == (800, 4_000)
    assert all(result["problem"] is None for result in written["results"])
    whats = [result["what"] for result in written["results"]]
    for view in ("v1", "v2", "v3", "v4"):
        assert sum(1 for what in whats if what.startswith(f"{view}, rows verified")) == 2
        assert sum(1 for what in whats if view in what) == 7
    epochs = [one for one in written["breakdowns"] if one["what"].endswith("40 changes")]
    assert len(epochs) == 4
    assert all(one["seconds"]["apply"] > 0 and one["seconds"]["commit"] > 0 for one in epochs)
    assert [path.name for path in tmp_path.iterdir()] == ["out"], "databases are removed"


def test_changes_come_in_their_shares(tmp_path: Path) -> None:
    tables = Tables(tmp_path / "one.vk", rows=1_000, partners=50, seed=1)
    table = tables.db.table("r")
    before = {row["k"]: row for row in table.scan().to_pylist()}
    changes = tables.change(200)
    after = {row["k"]: row for row in table.scan().to_pylist()}
    tables.close()

    both = before.keys() & after.keys()
    assert len(after.keys() - before.keys()) == 120
    assert len(before.keys() - after.keys()) == 20
    assert sum(1 for key in both if before[key]["y"] != after[key]["y"]) == 60
    assert 25 <= sum(1 for key in both if before[key]["x"] != after[key]["x"]) <= 30, (
        "a few may move to where they were"
    )
    assert changes.num_rows == 200
    assert tables.size == len(after) == 1_100


def test_the_time_of_a_step_is_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]

    def work(seconds: float) -> None:
        now[0] += seconds

    def work_and_call() -> None:
        work(2.0)
        inner(5.0)

    monkeypatch.setattr("bench.phases.time.perf_counter", lambda: now[0])
    watch = Watch()
    inner = watch.timed("inner", work)
    outer = watch.timed("outer", work_and_call)
    watch.begin()
    outer()
    work(1.0)
    assert watch.end() == 8.0
    assert watch.seconds == {"inner": 5.0, "outer": 2.0, "rest": 1.0}


def test_every_step_has_a_place_in_the_engine_and_is_put_back() -> None:
    places = [(owner, name) for _, step in STEPS for owner, name in step]
    originals = [getattr(owner, name) for owner, name in places]
    with watched():
        assert all(getattr(owner, name) is not one for (owner, name), one in zip(places, originals, strict=True))
    assert [getattr(owner, name) for owner, name in places] == originals


def test_where_the_time_goes_is_shown_and_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Outcome | Breakdown] = [
        MISSED,
        Breakdown("v1, fill", {"scan": 0.0015, "apply": 2.5, "log": 0.0}, {"jobs": 3}),
    ]
    monkeypatch.setitem(BENCHMARKS, "one", Benchmark(lambda settings: iter(found), lambda settings: {"rows": 7}))
    assert main(["one", "--quick", "--json", str(tmp_path), "--folder", str(tmp_path)]) == 0
    written = json.loads((tmp_path / "one.quick.json").read_text())
    assert written["sizes"] == {"rows": 7}
    (breakdown,) = written["breakdowns"]
    assert breakdown["seconds"] == {"scan": 0.0015, "apply": 2.5, "log": 0.0}
    assert breakdown["counts"] == {"jobs": 3}


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
    monkeypatch.setitem(BENCHMARKS, "one", Benchmark(lambda settings: iter([outcome]), lambda settings: {}))
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
