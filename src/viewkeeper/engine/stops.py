"""Views that stopped, since their query fails on some row: where each is, and how it takes up again what it has missed.

A view that stops stays at the cut where it was while its group goes on. It is tried again in every epoch, with the changes
since that cut: so a view of ten million rows that one row has stopped comes back for the price of what has changed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from viewkeeper.engine.point import Step
from viewkeeper.errors import Corrupt, QueryFailed, SnapshotTooOld
from viewkeeper.maintain.plan import Strategy, ViewPlan
from viewkeeper.store.contract import Cut, EpochRecord, TableSpec


@dataclass(frozen=True)
class Stop:
    """Where a view stopped: in which epoch, after which committed one and its cut, with which indexes, and why.

    `last` is the newest epoch in which it failed. A second run of that one fails at once: what it had done to the view's tables
    was taken back, and in one epoch nothing is done twice. `mended` is the epoch that brings the view back, noted before it is
    committed; after that the record goes.
    """

    epoch: int
    last: int
    committed: int
    cut: Cut
    indexes: tuple[str, ...]
    error: str
    hint: str | None
    damaged: bool = False
    mended: int | None = None

    @classmethod
    def here(cls, step: Step, plan: ViewPlan, why: QueryFailed | Corrupt, *, distrusted: bool) -> Stop:
        stop = cls(
            step.epoch, step.epoch, step.committed, dict(step.before), indexes_of(step, plan), why.message, why.hint
        )
        return stop.again(step, why, distrusted=distrusted)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Stop:
        cut = {table: tuple(positions) for table, positions in record["cut"].items()}
        return cls(**{**record, "cut": cut, "indexes": tuple(record["indexes"])})

    def again(self, step: Step, why: QueryFailed | Corrupt, *, distrusted: bool) -> Stop:
        """The same view fails once more, perhaps for another reason. What was found damaged has to be made anew, and what
        was to be made anew and could not be still has to."""
        damaged = self.damaged or distrusted or isinstance(why, Corrupt)
        return replace(self, last=step.epoch, error=why.message, hint=why.hint, damaged=damaged, mended=None)

    @staticmethod
    def distrusted(known: Stop | None, at: EpochRecord) -> Stop:
        """The record of a view that has seen rows which were damaged, or has not seen that they were: it is built anew."""
        if known is not None and not known.is_over_at(at.epoch):
            return replace(known, damaged=True, mended=None)
        error, hint = "it is built anew, since a view under it was damaged", "refresh it"
        return Stop(at.epoch, 0, at.epoch, at.cut, (), error, hint, damaged=True)

    def stands_at(self, epoch: int) -> bool:
        """Whether the view had not come back by an epoch of its group."""
        return self.epoch <= epoch and not self.is_over_at(epoch)

    def at(self, committed: int) -> Stop | None:
        """What is left of the record where no epoch after this one has happened. What was found damaged then is so now."""
        if self.epoch > committed and not self.damaged:
            return None
        return self if self.mended is None or self.mended <= committed else replace(self, mended=None)

    def is_over_at(self, epoch: int) -> bool:
        return self.mended is not None and self.mended <= epoch


def since(stop: Stop, step: Step, plan: ViewPlan) -> Step | None:
    """An epoch as a stopped view sees it, which has missed some; None if it has to be built anew.

    Why it is sound: no table of the view's own has changed after the epoch of its stop (that is looked up, not believed), so
    they are what its blocks were at that epoch's cut, and the delta rules hold between any two cuts. The other tables that
    they read, indexes included, are seen at the old cut by undoing their logs; an index that is younger than the stop would
    look empty there, so the view must have had the same ones, and not others that were made under their names since.
    """
    if plan.strategy is Strategy.FULL or stop.damaged or stop.indexes != indexes_of(step, plan):
        return None
    if any(_has_changed(step, spec, stop.committed) for spec in own_tables(plan)):
        return None
    return replace(step, before=stop.cut, committed=stop.committed, changes={}, sizes={})


def _has_changed(step: Step, spec: TableSpec, after: int) -> bool:
    """Whether an epoch before this one has changed a table; also if its log does not reach back so far."""
    try:
        return any(
            batch.num_rows
            for region in range(spec.regions)
            for batch in step.store.log(spec.name, region, after, step.committed)
        )
    except SnapshotTooOld:
        return True


def own_tables(plan: ViewPlan) -> list[TableSpec]:
    """A view's table, and those that are there for it alone: of inner blocks, of values, and the indexes of inner blocks."""
    inner = {block.shape.spec.name for block in plan.blocks[:-1]}
    indexes = [access.index for access in plan.indexes if access.index is not None and access.table in inner]
    return [plan.shape.spec, *plan.hidden, *indexes]


def indexes_of(step: Step, plan: ViewPlan) -> tuple[str, ...]:
    """The indexes that a plan uses, each with its number: a name may be taken again when nobody needs an index any more."""
    places = sorted({access.place for access in plan.indexes})
    return tuple(f"{place} {step.store.table(place).number}" for place in places)
