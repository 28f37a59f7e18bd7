"""Each threat of the papers, against a maintainer that lacks the protection from it. With it, the same schedule is right."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from broken import EVERYTHING, Join, Least, Maintainer, Protection, Row, Selection, Step, Sum, Update, View
from hypothesis import given
from hypothesis import strategies as st

from viewkeeper.testing.consistency import Level, Verdict


@dataclass(frozen=True)
class Threat:
    """A schedule that goes wrong without one protection, how far, and the counter-example."""

    missing: Protection
    view: type[View]
    beginning: dict[str, list[Row]]
    updates: tuple[Update, ...]
    schedule: tuple[Step, ...]
    level: Level
    says: str

    def run(self, protections: frozenset[Protection]) -> Verdict:
        return Maintainer(self.view(), self.updates, self.beginning, protections).run(self.schedule)


def both(number: int) -> tuple[Step, Step]:
    return ("read", number), ("write", number)


def all_changed(*numbers: int) -> tuple[Step, ...]:
    return tuple(("change", number) for number in numbers)


FIFTY: dict[str, list[Row]] = {"r": [("k1", "x1", 50)]}

THREATS = {
    "a message comes twice": Threat(
        Protection.ONCE, Sum, FIFTY,
        (Update(1, "r", None, ("k2", "x1", 100)),),
        (*all_changed(1), *both(1), *both(1)),
        Level.NONE, "unexpected ('x1', 250); missing ('x1', 150)",
    ),
    "a later update of a row is faster": Threat(
        Protection.ORDER, Selection, {"r": []},
        (Update(1, "r", None, ("k1", 100)), Update(2, "r", ("k1", 100), ("k1", 200))),
        (*all_changed(1, 2), ("read", 1), *both(2), ("write", 1)),
        Level.NONE, "unexpected ('k1', 100); missing ('k1', 200)",
    ),
    "a deletion overtakes its insertion": Threat(
        Protection.ORDER, Selection, {"r": []},
        (Update(1, "r", None, ("k1", 100)), Update(2, "r", ("k1", 100), None)),
        (*all_changed(1, 2), ("read", 1), *both(2), ("write", 1)),
        Level.NONE, "unexpected ('k1', 100)",
    ),
    "updates of different rows come in the wrong order": Threat(
        Protection.ORDER, Sum, FIFTY,
        (Update(1, "r", None, ("k2", "x1", 100)), Update(2, "r", None, ("k3", "x1", 7))),
        (*all_changed(1, 2), *both(2), *both(1)),
        Level.CONVERGENCE, "unexpected ('x1', 57); missing ('x1', 50)",
    ),
    "two workers read one sum and add to it": Threat(
        Protection.CHECK, Sum, FIFTY,
        (Update(1, "r", None, ("k2", "x1", 100)), Update(2, "r", None, ("k3", "x1", 200))),
        (*all_changed(1, 2), ("read", 1), ("read", 2), ("write", 1), ("write", 2)),
        Level.NONE, "unexpected ('x1', 250); missing ('x1', 350)",
    ),
    "both sides of a join find each other": Threat(
        Protection.POSITION, Join, {"r": [], "s": []},
        (Update(1, "r", None, ("k1", "x1", 100)), Update(2, "s", None, ("j1", "x1", 200))),
        (*all_changed(1, 2), *both(1), *both(2)),
        Level.NONE, "unexpected ('x1', 100, 200)",
    ),
    "a search for the least value finds what is yet to come": Threat(
        Protection.POSITION, Least, {"r": [("k1", "x1", 400)]},
        (
            Update(1, "r", ("k1", "x1", 400), None),
            Update(2, "r", None, ("k1", "x1", 200)),
            Update(3, "r", ("k1", "x1", 200), ("k1", "x1", 500)),
        ),
        (*all_changed(1, 2, 3), *both(1), *both(2), *both(3)),
        Level.WEAK,
        'saw the state after transaction "u2" or an older one, '
        'after reader "reader" (look 2) had seen the state after transaction "u3"',
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", THREATS)
def test_a_threat_is_seen_where_its_protection_is_missing(name: str) -> None:
    threat = THREATS[name]
    verdict = threat.run(EVERYTHING - {threat.missing})
    assert verdict.level is threat.level
    assert verdict.counter_example is not None
    assert verdict.counter_example.sentence.endswith(threat.says)


@pytest.mark.parametrize("name", THREATS)
def test_a_protection_averts_its_threat(name: str) -> None:
    assert THREATS[name].run(EVERYTHING).level >= Level.STRONG


@given(st.data())
def test_with_every_protection_any_schedule_is_strong(data: st.DataObject) -> None:
    threat = data.draw(st.sampled_from(list(THREATS.values())))
    numbers = [update.number for update in threat.updates]
    messages = [*numbers, *data.draw(st.lists(st.sampled_from(numbers), max_size=2))]
    writes = data.draw(st.permutations(messages))
    reads = [("read", number) for number in data.draw(st.permutations(numbers))]
    schedule = (*all_changed(*numbers), *reads, *(("write", number) for number in writes))
    assert Maintainer(threat.view(), threat.updates, threat.beginning).run(schedule).level >= Level.STRONG
