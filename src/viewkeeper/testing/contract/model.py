"""Random histories of writes, and of epochs, against a model that is too simple to be wrong: dicts.

The model keeps the rows, and per region every state it has been in. After each step the store agrees with it on rows,
positions and older snapshots; at the end the whole log is replayed.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from viewkeeper.errors import NotFound
from viewkeeper.store.contract import Action, Applied, Expectation, Kind, Mutation, Store, TableSpec
from viewkeeper.testing.contract.support import (
    STOCK,
    StoreFixtures,
    apply_all,
    arrow,
    changes,
    created,
    everything,
    exact,
    expect,
    expect_absent,
    keys_of,
    log_of,
    put,
    region_of,
    region_rows,
    replayed,
    same_region,
    update,
)
from viewkeeper.testing.memory_values import rank

FAST = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
NARROW = TableSpec(
    "narrow", pa.schema([pa.field("k", pa.int64(), nullable=False), pa.field("v", pa.int32())]), ("k",), ("k",), 2
)
WIDE = replace(STOCK, name="wide", regions=2)
KEPT = TableSpec(
    "kept", pa.schema([pa.field("k", pa.int64()), pa.field("v", pa.int32())]), ("k",), ("k",), 2, Kind.VIEW, "kept"
)

Key = tuple[Any, ...]
Values = tuple[Any, ...]
State = dict[Any, Any]
"""The rows of a maintained table with one key and one value column; in a change, "delete" stands for no row."""
NARROW_KEYS: list[Key] = [(key,) for region in range(2) for key in same_region(NARROW, region, 2)]
WIDE_KEYS: list[Key] = [(shop, item) for shop in ("a", "b") for item in (1, 2)]
NUMBERS = st.sampled_from([None, 0, 1])
PRICES = st.sampled_from([None, 0.0, -0.0, float("nan")])
NARROW_VALUES = st.tuples(NUMBERS)
WIDE_VALUES = st.tuples(NUMBERS, PRICES)


@dataclass(frozen=True)
class Step:
    """One write: per table and key what to do, and what to believe of some keys (None: that it is absent)."""

    narrow: dict[Key, tuple[Action, Values]]
    wide: dict[Key, tuple[Action, Values]]
    beliefs: dict[Key, Values | None]


ACTIONS = st.sampled_from([Action.PUT, Action.PUT, Action.DELETE, Action.UPDATE])
STEPS = st.builds(
    Step,
    st.dictionaries(st.sampled_from(NARROW_KEYS), st.tuples(ACTIONS, NARROW_VALUES), max_size=3),
    st.dictionaries(st.sampled_from(WIDE_KEYS), st.tuples(ACTIONS, WIDE_VALUES), max_size=3),
    st.one_of(
        st.just({}), st.dictionaries(st.sampled_from(NARROW_KEYS), st.one_of(st.none(), NARROW_VALUES), max_size=2)
    ),
)
CHANGES = st.dictionaries(st.sampled_from([None, *range(6)]), st.sampled_from(["delete", 1, 2, None]), max_size=4)
EPOCHS = st.lists(st.tuples(CHANGES, CHANGES, st.sampled_from(["commit", "commit", "undo"])), min_size=1, max_size=5)


@dataclass
class Model:
    """One table: its rows, and the states of each region by position."""

    spec: TableSpec
    rows: dict[Key, Values] = field(default_factory=dict)
    states: list[list[dict[Key, Values]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.states = [[{}] for _ in range(self.spec.regions)]

    def after(self, step: dict[Key, tuple[Action, Values]]) -> dict[Key, Values] | None:
        """The rows after a write; None if it updates a row that is not there."""
        rows = dict(self.rows)
        for key, (action, values) in step.items():
            if action is Action.UPDATE and key not in rows:
                return None
            if action is Action.DELETE:
                rows.pop(key, None)
            else:
                rows[key] = values
        return rows

    def move(self, rows: dict[Key, Values]) -> None:
        """Each region that differs gets a new position."""
        self.rows = rows
        for region, states in enumerate(self.states):
            mine = {key: values for key, values in rows.items() if region_of(self.spec, *key) == region}
            if _ranked(mine) != _ranked(states[-1]):
                states.append(mine)

    def table(self, rows: dict[Key, Values]) -> pa.Table:
        ordered = sorted(rows, key=rank)
        return arrow(self.spec, [_row(self.spec, key, rows[key]) for key in ordered])

    def mutations(self, step: dict[Key, tuple[Action, Values]]) -> list[Mutation]:
        return [_mutation(self.spec, key, action, values) for key, (action, values) in step.items()]


def _ranked(rows: dict[Key, Values]) -> dict[Key, Any]:
    return {key: rank(values) for key, values in rows.items()}


def _row(spec: TableSpec, key: Key, values: Values) -> dict[str, Any]:
    return dict(zip(spec.key, key, strict=True)) | dict(zip(spec.values, values, strict=True))


def _mutation(spec: TableSpec, key: Key, action: Action, values: Values) -> Mutation:
    row = _row(spec, key, values)
    match action:
        case Action.PUT:
            return put(spec, tuple(row[name] for name in spec.schema.names))
        case Action.UPDATE:
            return update(spec, row)
        case Action.DELETE:
            return Mutation(spec.name, action, keys_of(spec, [key]))


def _expectations(spec: TableSpec, beliefs: dict[Key, Values | None]) -> list[Expectation]:
    return [
        expect_absent(spec, key) if values is None else expect(spec, _row(spec, key, values))
        for key, values in beliefs.items()
    ]


class ModelContract(StoreFixtures):
    def test_any_history_of_writes_agrees_with_the_model(self, store: Store) -> None:
        numbers = itertools.count()

        @FAST
        @given(st.lists(STEPS, min_size=1, max_size=8), st.data())
        def check(steps: list[Step], data: st.DataObject) -> None:
            number = next(numbers)
            models = [Model(replace(spec, name=f"{spec.name}{number}")) for spec in (NARROW, WIDE)]
            created(store, *(model.spec for model in models))
            for step in steps:
                _write(store, models, step)
                for model in models:
                    _check_now(store, model)
                    _check_snapshot(store, model, data)
            for model in models:
                _check_log(store, model)
                store.drop(model.spec.name)

        check()

    def test_any_history_of_epochs_agrees_with_the_model(self, store: Store) -> None:
        numbers = itertools.count()

        @FAST
        @given(EPOCHS)
        def check(epochs: list[tuple[State, State, str]]) -> None:
            spec = replace(KEPT, name=f"kept{next(numbers)}", group=f"group{next(numbers)}")
            created(store, spec)
            states: dict[int, State] = {0: {}}
            for real, ignored, end in epochs:
                states = _run(store, spec, states, real, ignored, end)
            for region in range(spec.regions):
                assert replayed(spec, log_of(store, spec, region)) == exact(region_rows(store, spec, region))
            store.drop(spec.name)

        check()


def _write(store: Store, models: list[Model], step: Step) -> None:
    """Do the step in store and model, with the same outcome."""
    narrow, wide = models
    believed = all(rank(narrow.rows.get(key)) == rank(values) for key, values in step.beliefs.items())
    after = (narrow.after(step.narrow), wide.after(step.wide))
    mutations = narrow.mutations(step.narrow) + wide.mutations(step.wide)
    try:
        outcome: bool | None = store.write(mutations, _expectations(narrow.spec, step.beliefs))
    except NotFound:
        outcome = None
    possible = None not in after
    assert outcome == (False if not believed else True if possible else None)
    for model, rows in zip(models, after, strict=True):
        if outcome and rows is not None:
            model.move(rows)


def _check_now(store: Store, model: Model) -> None:
    spec = model.spec
    assert exact(store.scan(spec.name)) == exact(model.table(model.rows))
    assert store.positions(spec.name) == tuple(len(states) - 1 for states in model.states)
    assert store.cut([spec.name]) == {spec.name: store.positions(spec.name)}
    for bound in (NARROW_KEYS if len(spec.key) == 1 else WIDE_KEYS)[1:3]:
        above = {key: values for key, values in model.rows.items() if key >= bound}
        below = {key: values for key, values in model.rows.items() if key < bound}
        assert exact(store.scan(spec.name, start=bound)) == exact(model.table(above))
        assert exact(store.scan(spec.name, stop=bound)) == exact(model.table(below))


def _check_snapshot(store: Store, model: Model, data: st.DataObject) -> None:
    at = tuple(data.draw(st.integers(0, len(states) - 1)) for states in model.states)
    rows: dict[Key, Values] = {}
    for states, position in zip(model.states, at, strict=True):
        rows |= states[position]
    assert exact(store.scan(model.spec.name, at=at)) == exact(model.table(rows))


def _check_log(store: Store, model: Model) -> None:
    spec = model.spec
    for region, states in enumerate(model.states):
        for after in range(len(states)):
            begin = [_row(spec, key, values) for key, values in states[after].items()]
            log = log_of(store, spec, region, after)
            assert replayed(spec, log, begin) == exact(model.table(states[-1]))
            if after == len(states) - 2:
                assert len(log) == _differences(states[-2], states[-1])


def _differences(before: dict[Key, Values], after: dict[Key, Values]) -> int:
    return sum(rank(before.get(key)) != rank(after.get(key)) for key in before.keys() | after.keys())


def _run(
    store: Store, spec: TableSpec, states: dict[int, State], real: State, ignored: State, end: str
) -> dict[int, State]:
    """One epoch: apply, apply something else (which must not count), then commit or undo. All states by epoch."""
    assert spec.group is not None
    last = max(states)
    epoch = store.begin(spec.group, {}, 1).epoch
    assert epoch > last
    wanted = {key: value for key, value in (states[last] | real).items() if value != "delete"}
    applied = apply_all(store, spec, _epoch_changes(spec, real), epoch)
    assert _total(applied) == _tally(states[last], wanted)
    touched = {region_of(spec, key) for key in real}
    again = {key: value for key, value in ignored.items() if region_of(spec, key) in touched}
    assert len(apply_all(store, spec, _epoch_changes(spec, again), epoch)) <= len(applied)
    assert everything(store, spec.name, (epoch,) * 2) == _sorted(wanted)
    assert everything(store, spec.name) == _sorted(states[last])
    finish = store.commit if end == "commit" else store.undo
    finish(spec.group, epoch, 1)
    states = states | {epoch: wanted if end == "commit" else states[last]}
    assert everything(store, spec.name) == _sorted(states[epoch])
    for number, state in states.items():
        assert everything(store, spec.name, (number,) * 2) == _sorted(state)
    return states


def _epoch_changes(spec: TableSpec, wanted: State) -> pa.Table:
    puts = [(key, value) for key, value in wanted.items() if value != "delete"]
    return changes(spec, puts, [(key,) for key, value in wanted.items() if value == "delete"])


def _sorted(state: State) -> list[tuple[Any, Any]]:
    return sorted(state.items(), key=lambda item: rank(item[0]))


def _total(applied: list[Applied]) -> Counter[str]:
    return sum((Counter(vars(answer)) for answer in applied), Counter())


def _tally(before: State, after: State) -> Counter[str]:
    kinds = Counter(
        inserted=len(after.keys() - before.keys()),
        updated=sum(before[key] != after[key] for key in before.keys() & after.keys()),
        deleted=len(before.keys() - after.keys()),
    )
    return +kinds
