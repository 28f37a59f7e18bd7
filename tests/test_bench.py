"""The benchmarks run and report; how fast anything is, no test says."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import viewkeeper as vk
from viewkeeper.bench import page, peers, plots, readme
from viewkeeper.bench.__main__ import RESULTS, main
from viewkeeper.bench.child import Commands
from viewkeeper.bench.experiment import Experiment, Kind, Plot
from viewkeeper.bench.experiments import writers
from viewkeeper.bench.outcomes import (
    Breakdown,
    Finding,
    Mark,
    Of,
    Outcome,
    Sample,
    Trace,
    Verdict,
    ceiling,
    floor,
    withheld,
)
from viewkeeper.bench.phases import STEPS, Watch, watched
from viewkeeper.bench.registry import EXPERIMENTS, MODULES
from viewkeeper.bench.report import Report, as_json
from viewkeeper.bench.runner import Comparison, Way, Wrong, compare, compared, in_turn, proved, single, speed, verified
from viewkeeper.bench.settings import Settings
from viewkeeper.bench.shared import Shared
from viewkeeper.bench.streams import Spread, Stream
from viewkeeper.bench.truth import same_sums
from viewkeeper.bench.workload import Mix, Tables

ROOT = Path(__file__).parent.parent


def _experiment(*found: Finding, plot: Plot | None = None, sizes: dict[str, int] | None = None) -> Experiment:
    """One that finds what it is told to, and has no views."""
    picture = () if plot is None else (plot,)
    measure, sized = (lambda _: iter(found)), (lambda _: sizes or {})
    return Experiment("one", "One", "nowhere", "", "nothing", measure, sized, picture, views=False)


def _settings(folder: Path) -> Settings:
    return Settings(folder, Shared(folder, 1))


Results = dict[str, dict[str, Any]]

LONG = {"crash", "intervals", "throughput_by_view"}
"""These start Sparks of their own, which takes longer than all others together. `make bench QUICK=1` runs them too."""


@pytest.fixture(scope="module")
def short_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Results]:
    """One tiny run of the experiments, which must have gone well: where it wrote, and its results by name."""
    folder = tmp_path_factory.mktemp("bench")
    names = [name for name in EXPERIMENTS if name not in LONG]
    options = ["--quick", "--scale", "small", "--json", str(folder / "out"), "--folder", str(folder)]
    command = [sys.executable, "-m", "viewkeeper.bench", *names, *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, _bad_lines(done.stdout) + done.stderr
    assert [path.name for path in folder.iterdir()] == ["out"], "databases are removed"
    out = folder / "out"
    return out, {name: json.loads((out / f"{name}.quick.json").read_text()) for name in names}


def _bad_lines(shown: str) -> str:
    """Of all tables, what did not go well: the rest would hide it."""
    return "\n".join(line for line in shown.splitlines() if "failed" in line)


@pytest.mark.slow
def test_experiments_run_prove_their_results_and_draw_them(short_run: tuple[Path, Results]) -> None:
    out, results = short_run
    for name, written in results.items():
        assert all(result["problem"] is None for result in written["results"]), name
        proofs = [result for result in written["results"] if result["proof"]]
        assert proofs or name == "store", "the store has no views, and checks its rows as it goes"
        assert all(proof["ours"]["median"] > 0 for proof in proofs), name
        for plot in EXPERIMENTS[name].plots:
            stem = plots.file_stem(f"{name}.quick", plot)
            for kind, start in (("png", b"\x89PNG"), ("svg", b"<?xml")):
                assert (out / f"{stem}.{kind}").read_bytes().startswith(start)


@pytest.mark.slow
def test_the_results_say_what_was_measured_and_where(short_run: tuple[Path, Results]) -> None:
    written = short_run[1]["store"]
    assert written["benchmark"] == "store"
    assert written["sizes"]["rows"] == 2_000
    assert {"cores", "memory_mb", "python", "libraries"} <= written["machine"].keys()
    assert len(written["results"]) > 10
    for result in written["results"]:
        assert result["ours"]["low"] <= result["ours"]["median"] <= result["ours"]["high"]
        assert result["verdict"] in {"ok", "below floor", "above ceiling", "for information"}


@pytest.mark.slow
def test_each_of_the_four_views_is_measured_and_proved(short_run: tuple[Path, Results]) -> None:
    written = short_run[1]["views"]
    assert (written["sizes"]["small_rows"], written["sizes"]["large_rows"]) == (800, 4_000)
    whats = [result["what"] for result in written["results"]]
    for view in ("v1", "v2", "v3", "v4"):
        assert sum(1 for what in whats if what.startswith(f"{view}, rows verified")) == 2
        assert sum(1 for what in whats if view in what) == 6
    epochs = [one for one in written["breakdowns"] if one["what"].endswith("40 changes")]
    assert len(epochs) == 4
    assert all(one["seconds"]["apply"] > 0 and one["seconds"]["commit"] > 0 for one in epochs)


def test_every_module_is_an_experiment_that_says_what_it_is() -> None:
    folder = ROOT / "src" / "viewkeeper" / "bench" / "experiments"
    assert {module.__name__.rpartition(".")[2] for module in MODULES} == {
        path.stem for path in folder.glob("*.py") if path.stem != "__init__"
    }
    for module in MODULES:
        experiment: Experiment = module.EXPERIMENT
        assert experiment.name == module.__name__.rpartition(".")[2]
        assert experiment.title
        assert experiment.source
        assert experiment.limits
        assert all(plot.question.endswith("?") and plot.y for plot in experiment.plots), experiment.name
        assert len({plot.name for plot in experiment.plots}) == len(experiment.plots) > 0, experiment.name


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

    monkeypatch.setattr("viewkeeper.bench.phases.time.perf_counter", lambda: now[0])
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
    breakdown = Breakdown("v1, fill", {"scan": 0.0015, "apply": 2.5, "log": 0.0}, {"jobs": 3})
    monkeypatch.setitem(EXPERIMENTS, "one", _experiment(MISSED, breakdown, sizes={"rows": 7}))
    assert main(["one", "--quick", "--json", str(tmp_path), "--folder", str(tmp_path)]) == 0
    written = json.loads((tmp_path / "one.quick.json").read_text())
    assert written["sizes"] == {"rows": 7}
    (found,) = written["breakdowns"]
    assert found["seconds"] == {"scan": 0.0015, "apply": 2.5, "log": 0.0}
    assert found["counts"] == {"jobs": 3}


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
        *("prepare raw", "run raw", "check raw [1]", "prepare ours", "run ours", "check ours [1]"),
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
    monkeypatch.setitem(EXPERIMENTS, "one", _experiment(outcome))
    assert main(["one", *options, "--json", str(tmp_path), "--folder", str(tmp_path)]) == code
    assert shown in capsys.readouterr().out


def test_a_run_of_smaller_scale_neither_judges_limits_nor_replaces_figures(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXPERIMENTS, "one", _experiment(MISSED))
    options = ["one", "--json", str(tmp_path), "--folder", str(tmp_path)]
    assert main([*options, "--scale", "0.5"]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["one.quick.json"]
    assert main(options) == 1
    assert (tmp_path / "one.json").exists()


def test_an_unknown_name_is_told_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["stor"]) == 2
    assert 'experiment "stor" does not exist: there are views, latency, ' in capsys.readouterr().err


def test_a_failure_has_no_figures_in_json(tmp_path: Path) -> None:
    written = as_json(Report("one", _settings(tmp_path), "2024-02-29T00:00:00+00:00", 1.0, 0.5, [WRONG]))
    (result,) = json.loads(json.dumps(written))["results"]
    assert (result["ours"], result["raw"], result["ratio"]) == (None, None, None)
    assert result["verdict"] == "failed"


def test_an_experiment_that_breaks_has_no_figures_and_the_others_go_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def breaks(settings: Settings) -> Iterator[Finding]:
        yield MISSED
        raise ValueError("out of order")

    monkeypatch.setitem(EXPERIMENTS, "broken", replace(_experiment(), name="broken", measure=breaks))
    monkeypatch.setitem(EXPERIMENTS, "one", _experiment(Outcome("good", ours=Sample((1.0,)))))
    assert main(["broken", "one", "--quick", "--json", str(tmp_path), "--folder", str(tmp_path)]) == 1
    broken, one = (json.loads((tmp_path / f"{name}.quick.json").read_text()) for name in ("broken", "one"))
    assert [result["what"] for result in broken["results"]] == [MISSED.what, "the experiment as a whole"]
    problem = "ValueError: out of order"
    assert [result["problem"] for result in broken["results"]] == [
        f"no figure: the experiment as a whole: {problem}",
        problem,
    ]
    assert [result["ours"] for result in broken["results"]] == [None, None], (
        "what came before was not looked at any more"
    )
    assert one["results"][0]["problem"] is None
    shown = capsys.readouterr().out
    assert "broken                   0 s  2 failed" in shown
    assert "in all" in shown


JAVA_DIES = """
import sys
from pathlib import Path
from pyspark import SparkContext
from viewkeeper.bench.__main__ import main
from viewkeeper.bench.experiment import Experiment
from viewkeeper.bench.outcomes import Outcome, Sample
from viewkeeper.bench.registry import EXPERIMENTS
from viewkeeper.bench.workload import QUERIES

def rows(settings):
    tables = settings.shared.tables(200, 20)
    settings.shared.have(tables, QUERIES[3])
    return Outcome("rows", "rows", Sample((float(tables.db.verify(QUERIES[3].name).rows),)), proof=True)

def dies(settings):
    yield rows(settings)
    SparkContext._gateway.proc.kill()
    SparkContext._gateway.proc.wait()

def lives(settings):
    yield rows(settings)

for name, measure in (("dies", dies), ("lives", lives)):
    EXPERIMENTS[name] = Experiment(name, name, "here", "", "nothing", measure, lambda settings: {})
if __name__ == "__main__":
    sys.exit(main(["dies", "lives", "--quick", "--json", sys.argv[1], "--folder", sys.argv[1]]))
"""


@pytest.mark.slow
def test_when_java_dies_the_next_experiment_has_another(tmp_path: Path) -> None:
    command = [sys.executable, "-c", JAVA_DIES, str(tmp_path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stdout + done.stderr
    dies, lives = (json.loads((tmp_path / f"{name}.quick.json").read_text()) for name in ("dies", "lives"))
    assert dies["results"][-1]["problem"] == "its Java process ended during the experiment"
    assert [result["problem"] for result in lives["results"]] == [None]
    assert lives["results"][0]["ours"]["median"] > 0
    assert dies["results"][0]["ours"] is None


def test_no_figure_is_left_when_a_view_is_wrong(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong() -> int:
        raise Wrong("2 rows are missing")

    fast = Outcome("fast", ours=Sample((1.0,)), raw=Sample((9.0,)), ratio=Sample((9.0,)), limit=floor(1))
    unknown = Outcome("peer", skipped="not installed")
    spent, seen = Breakdown("fast", {"log": 1.0}, {}), Trace("speed", ((0.0, 1.0, 2.0),))
    found = [one for one in withheld([fast, spent, unknown, seen, proved("v", wrong)]) if isinstance(one, Outcome)]
    assert [one.verdict for one in found] == [Verdict.FAILED, Verdict.SKIPPED, Verdict.FAILED]
    assert (found[0].ours, found[0].raw, found[0].ratio) == (None, None, None)
    assert found[0].problem == "no figure: v: 2 rows are missing"
    assert len(withheld([fast, spent, unknown, seen, proved("v", wrong)])) == 3, "nor does it show where time went"
    good: list[Finding] = [fast, spent, seen, proved("rows verified", lambda: 3)]
    assert withheld(good, unproved="nothing was looked at") == good
    (unseen,) = withheld([fast], unproved="nothing was looked at")
    assert isinstance(unseen, Outcome)
    assert (unseen.ours, unseen.problem) == (None, "no figure: nothing was looked at")
    monkeypatch.setitem(EXPERIMENTS, "one", _experiment(fast, proved("rows verified", wrong)))
    assert main(["one", "--quick", "--json", str(tmp_path), "--folder", str(tmp_path)]) == 1


def test_sides_run_in_turn_and_one_that_fails_is_out() -> None:
    log: list[str] = []

    def side(name: str, problem: bool = False) -> float:
        log.append(name)
        if problem:
            raise Wrong("not the same rows")
        return 2.0 * len(log)

    sides = {"a": lambda: side("a"), "b": lambda: side("b", problem=True), "c": lambda: side("c")}
    found = in_turn(sides, repetitions=2, warmups=1)
    assert log == ["a", "b", "c", "c", "a", "c", "a"], "each round begins with another"
    assert found["a"] == Sample((10.0, 14.0))
    assert isinstance(found["b"], Wrong)
    outcome = speed("c beside a", 100, found["c"], found["a"], floor(0.5))
    assert outcome.ours == Sample((100 / 8, 100 / 12))
    assert outcome.ratio == Sample((10 / 8, 14 / 12))
    longer = compared("c beside a", found["c"], found["a"], ratio_of=Of.TIME)
    assert (longer.ratio, longer.ratio_of) == (Sample((8 / 10, 12 / 14)), Of.TIME)
    assert compared("c beside a", found["c"], found["a"], ceiling(1)).ratio == longer.ratio
    assert speed("b", 100, found["a"], found["b"]).problem == "not the same rows"


LINES = Plot("Is it fast?", "rows", "seconds", log_x=True)
POINTS = [
    Outcome(f"{x}", ours=Sample((y, y + 1)), raw=Sample((5.0,)), mark=Mark("ours", x, raw="raw"))
    for x, y in ((10, 1.0), (100, 2.0))
]


@pytest.mark.parametrize(
    ("plot", "found"),
    [
        (LINES, POINTS),
        (replace(LINES, log_y=True, reference="in proportion"), POINTS),
        (replace(LINES, kind=Kind.BARS, log_x=False, log_y=True), POINTS),
        (replace(LINES, kind=Kind.TRACES), [Trace("speed", ((0.0, 1.0, 3.0), (1.5, 2.0, 4.0)), ((0.5, "a crash"),))]),
        (replace(LINES, kind=Kind.STACKS), [Breakdown("v1", {"log": 0.5, "apply": 0.2}, {})]),
    ],
)
def test_a_plot_is_drawn_the_same_each_time(
    plot: Plot, found: list[Finding], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(EXPERIMENTS, "one", _experiment(Outcome("good", ours=Sample((1.0,))), *found, plot=plot))
    assert main(["one", "--quick", "--json", str(tmp_path), "--folder", str(tmp_path)]) == 0
    first = {kind: (tmp_path / f"one.quick.{kind}").read_bytes() for kind in ("png", "svg")}
    written = json.loads((tmp_path / "one.quick.json").read_text())
    plots.drawn(EXPERIMENTS["one"], written, tmp_path, "one.quick")
    assert {kind: (tmp_path / f"one.quick.{kind}").read_bytes() for kind in ("png", "svg")} == first


def test_what_failed_is_not_drawn(tmp_path: Path) -> None:
    mark = Mark("ours", 1, raw="raw")
    lines = [
        Outcome("bad", problem="no", mark=mark),
        *POINTS,
        Outcome("other plot", ours=Sample((1.0,)), mark=replace(mark, plot="x")),
    ]
    written = as_json(Report("one", _settings(tmp_path), "2024-02-29T00:00:00+00:00", 1.0, 0.5, lines))
    assert plots.series_of(LINES, written) == {
        "ours": [(10, 1.5, 1.0, 2.0), (100, 2.5, 2.0, 3.0)],
        "raw": [(10, 5.0, 5.0, 5.0), (100, 5.0, 5.0, 5.0)],
    }


def test_the_page_is_current_with_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    current = page.text(RESULTS, page.PAGE.parent)
    assert page.PAGE.read_text(encoding="utf-8") == current, "the results have changed: python -m viewkeeper.bench.page"


def test_the_tables_of_readme_are_current_with_the_results(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    text = readme.README.read_text(encoding="utf-8")
    assert readme.updated(text, RESULTS) == text, "the results have changed: python -m viewkeeper.bench.page"


def test_the_tables_of_readme_are_written_from_the_results(tmp_path: Path) -> None:
    written = json.loads((ROOT / RESULTS / "store.json").read_text())
    for result in written["results"]:
        result["ours"] = {"median": 0.5} if result["what"] != "get" else None
    (tmp_path / "store.json").write_text(json.dumps(written))
    found = readme.updated("a\n<!-- figures of store -->\nold\n<!-- end -->\nb", tmp_path)
    assert found.startswith("a\n<!-- figures of store -->\n| store |")
    assert found.endswith("\n<!-- end -->\nb")
    assert "| put one row | 500 ms |" in found
    assert "| get one row | failed |" in found
    assert "old" not in found


def test_the_page_says_what_was_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[Finding] = [
        Outcome("following", ours=Sample((0.1, 0.3)), raw=Sample((2.0, 2.0)), ratio=Sample((10.0,)), limit=floor(8)),
        MISSED,
        WRONG,
        Outcome("peer", skipped="not installed"),
        *POINTS,
    ]
    monkeypatch.setitem(EXPERIMENTS, "one", _experiment(*found, plot=LINES, sizes={"rows": 7}))
    monkeypatch.chdir(tmp_path)
    main(["one"])
    page.main()
    written = Path("docs/performance.md").read_text(encoding="utf-8")
    assert "| following | 200 ms ±50% | 2.00 s ±0% | 10.00× speed | 2 | ≥ 8 | ok |" in written
    assert f"| {WRONG.what} |  |  |  |  |  | failed: {WRONG.problem} |" in written
    assert "| peer |  |  |  |  |  | skipped: not installed |" in written
    assert "![Is it fast?](../bench/results/one.svg)" in written
    assert "| [One](#one) | 6 | 1 | 1 | 1 | 0 |" in written
    assert "`viewkeeper bench one`" in written
    assert Path("bench/results/one.svg").exists()


def test_skewed_numbers_come_more_often_and_different_ones_once() -> None:
    rng = np.random.default_rng(1)
    counts = np.bincount(Spread(1_000, skew=1.0).draw(rng, 20_000), minlength=1_000)
    assert counts[0] > 10 * counts[100:].mean()
    assert counts.sum() == 20_000
    even = np.bincount(Spread(1_000).draw(rng, 20_000), minlength=1_000)
    assert even.max() < 60
    drawn = [Spread(1_000, skew=1.0).draw_different(rng, 50) for _ in range(200)]
    assert all(len(set(one)) == 50 and (np.diff(one) > 0).all() and 0 <= one[0] <= one[-1] < 1_000 for one in drawn)
    assert sum(0 in one for one in drawn) > 190, "the likeliest is in nearly all of them"
    assert sum(999 in one for one in drawn) < 50


@pytest.mark.parametrize(
    ("mix", "added", "gone", "moved"),
    [(Mix(new=100), 100, 0, 0), (Mix(), 0, 100, 0), (Mix(moved=100), 0, 0, 100), (Mix(updated=100), 0, 0, 0)],
)
def test_one_kind_of_change_alone(tmp_path: Path, mix: Mix, added: int, gone: int, moved: int) -> None:
    tables = Tables(tmp_path / "one.vk", rows=1_000, partners=5_000, seed=1)
    before = {row["k"]: row for row in tables.db.table("r").scan().to_pylist()}
    tables.change(100, mix)
    after = {row["k"]: row for row in tables.db.table("r").scan().to_pylist()}
    tables.close()
    assert (len(after.keys() - before.keys()), len(before.keys() - after.keys())) == (added, gone)
    assert abs(sum(1 for key in before.keys() & after.keys() if before[key]["x"] != after[key]["x"]) - moved) <= 2


def test_a_child_follows_until_told_to_stop(tmp_path: Path) -> None:
    stream = Stream(tmp_path / "one.vk", Spread(10), seed=1)
    stream.view("v")
    with vk.open(tmp_path / "one.vk") as db:
        commands = Commands(db)
        commands.start("v")
        for _ in range(3):
            stream.insert(20)
        done = commands.stop()
        commands.catch_up("v")
        assert sum(epoch["changes"] for epoch in done["epochs"]) <= 60
        assert commands.verify(["v"]) == {"rows": 10}
        assert verified(db, ["v"]) == 10
        stream.insert(5)
        assert commands.refresh("v")["seconds"] > 0
        with pytest.raises(Wrong, match='view "v" found nothing to follow'):
            commands.refresh("v")
    stream.close()


class Late:
    """A child that comes to no epoch while rows are written."""

    def __init__(self, database: Path, **_: Any) -> None:
        self._db = vk.open(database)
        self._commands = Commands(self._db)

    def ask(self, do: str, **given: Any) -> dict[str, Any]:
        idle: dict[str, dict[str, Any]] = {"start": {}, "stop": {"epochs": []}}
        return idle[do] if do in idle else getattr(self._commands, do)(**given)

    def close(self) -> None:
        self._db.close()


def test_a_maintainer_that_comes_late_is_a_missed_floor_and_no_wrong_result(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writers, "Child", Late)
    found = list(writers.measure(replace(_settings(tmp_path), quick=True, scale=0.01)))
    assert [one.problem for one in found if isinstance(one, Outcome)] == [None] * 3
    assert [one.verdict for one in found if isinstance(one, Outcome) and one.unit == "epochs"] == [Verdict.BELOW]


R = [{"k": 1, "x": "a", "y": 5}, {"k": 2, "x": "a", "y": 7}, {"k": 3, "x": "b", "y": 1}, {"k": 4, "x": "c", "y": 9}]
BATCHES = (
    [{"w": -1, "k": 2, "x": "a", "y": 7}, {"w": 1, "k": 2, "x": "b", "y": 4}, {"w": 1, "k": 5, "x": "d", "y": 2}],
    [{"w": -1, "k": 4, "x": "c", "y": 9}, {"w": -1, "k": 1, "x": "a", "y": 5}, {"w": 1, "k": 1, "x": "a", "y": 6}],
)
EXPECTED = {
    "v1": [("a", 6, 1), ("b", 5, 2), ("d", 2, 1)],
    "v2": [("a", 6, 6), ("b", 1, 4), ("d", 2, 2)],
    "v3": [(1, "a", 6, 1), (2, "b", 4, 1001), (3, "b", 1, 1001), (5, "d", 2, 4)],
    "v4": [(1, 11), (4, 2)],
}


@pytest.mark.parametrize("view", EXPECTED)
def test_the_triggers_of_a_peer_keep_its_view(view: str, tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pylist(R), tmp_path / "r.parquet")
    partners = pa.table({"x": ["a", "b", "c", "d"], "z": [1, 1001, 3, 4]})
    pq.write_table(partners, tmp_path / "s.parquet")
    for number, batch in enumerate(BATCHES):
        pq.write_table(pa.Table.from_pylist(batch), tmp_path / f"batch-{number}.parquet")
    program = Path(peers.__file__).with_name("run_sqlite_triggers.py")
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), view], capture_output=True, text=True, check=True
    )
    assert len(json.loads(done.stdout)["seconds"]) == 2
    rows = pq.read_table(tmp_path / f"sqlite_triggers-{view}.parquet").to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == EXPECTED[view]


def test_sums_that_are_not_the_tables_are_seen(tmp_path: Path) -> None:
    """Two views of one shape: one sums what the proof thinks it sums, the other something else."""
    stream = Stream(tmp_path / "one.vk", Spread(5), seed=1)
    stream.insert(50)
    stream.view("v")
    stream.view("w", "SELECT x, SUM(y + 1) AS s FROM r GROUP BY x")
    assert same_sums(stream.db, "v") == 5
    with pytest.raises(Wrong, match='view "w": column "s" differs'):
        same_sums(stream.db, "w")
    stream.close()
