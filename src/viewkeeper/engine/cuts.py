"""Where a group may go next.

A group that reads base tables alone goes to a cut of them: the newest, or an earlier one if much has happened.

A group whose views stand on views of another group goes where that group is: to its committed epoch for the views, and to
that epoch's cut for every base table, its own included. So its views are still what their queries say of one cut, the
other group's. For this the lower group's cut has the tables of those above it too, whether it reads them itself or not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from viewkeeper.engine.catalog import ViewCatalog
from viewkeeper.maintain.plan import ViewPlan
from viewkeeper.store.contract import Cut, EpochRecord, Kind, Store


@dataclass(frozen=True)
class Aim:
    """A cut to go to, and the views of the group below that had stopped by then: what stands on them waits."""

    cut: Cut
    stopped: frozenset[str] = field(default_factory=frozenset)


@dataclass(frozen=True)
class GroupCuts:
    """Finds cuts for groups."""

    store: Store
    catalog: ViewCatalog

    def tables(self, group: str) -> list[str]:
        """The base tables that a group's cut must have: for itself, and for the groups above it."""
        lineage = self.catalog.lineage()
        return lineage.tables_under([group, *lineage.groups_above(group)])

    def root(self, group: str, tables: Iterable[str] = (), *, at_most: int | None = None) -> Aim:
        """For a group that stands on no other: its tables, and `tables`. Never before where the group is.

        Only in tables that its views have under them is the group anywhere: others of its cut may have been dropped since,
        and made again.
        """
        known = self.tables(group)
        committed = self.store.group(group).committed.cut
        after = {name: committed[name] for name in known if name in committed}
        return Aim(self.store.cut(list(dict.fromkeys([*known, *tables])), after=after, at_most=at_most))

    def upper(self, below: str, plans: Sequence[ViewPlan]) -> Aim:
        """For a group with these plans that stands on the group `below`."""
        committed, stopped = self._settled(below)
        base = {name: at for name, at in committed.cut.items() if self.store.table(name).kind is Kind.BASE}
        self.store.cut(list(base))  # carries out what is decided, so that every table has come to where the cut says
        read = [self.store.table(name) for name in inputs_of(plans)]
        views = {spec.name: (committed.epoch,) * spec.regions for spec in read if spec.kind is not Kind.BASE}
        return Aim({**base, **views}, stopped)

    def _settled(self, group: str) -> tuple[EpochRecord, frozenset[str]]:
        """Where a group is, and which of its views had stopped there: a failure is taken off the record after a commit."""
        while True:
            committed = self.store.group(group).committed
            stopped = self.catalog.stopped(group, committed.epoch)
            if self.store.group(group).committed.epoch == committed.epoch:
                return committed, frozenset(stopped)

    def missing(self, below: str, tables: Iterable[str]) -> list[str]:
        """Base tables that the cut of the group below does not have yet."""
        known = self.store.group(below).committed.cut
        return [name for name in tables if name not in known]


def inputs_of(plans: Iterable[ViewPlan]) -> list[str]:
    """The tables that some plans of one group read and do not maintain."""
    plans = list(plans)
    own = {plan.name for plan in plans}
    return list(dict.fromkeys(table for plan in plans for table in plan.tables if table not in own))
