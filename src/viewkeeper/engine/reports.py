"""What a refresh did: per view and in all, for people and for programs; kept as history."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class ViewReport:
    """One view in one epoch."""

    view: str
    strategy: str
    changes: int
    inserted: int
    updated: int
    deleted: int
    seconds: float
    jobs: int
    error: str | None = None


@dataclass(frozen=True)
class EpochReport:
    """One group's epoch; `epoch` is None when there was nothing to do."""

    group: str
    epoch: int | None
    cut: Mapping[str, tuple[int, ...]]
    mode: str
    seconds: float
    jobs: int
    views: tuple[ViewReport, ...] = ()
    finished: float = 0.0

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> EpochReport:
        stored = json.loads(text)
        views = tuple(ViewReport(**view) for view in stored.pop("views"))
        cut = {table: tuple(positions) for table, positions in stored.pop("cut").items()}
        return cls(**stored, views=views, cut=cut)


@dataclass(frozen=True)
class RefreshReport:
    """What `Database.refresh` did: one epoch per group, or none where nothing had changed."""

    epochs: tuple[EpochReport, ...]

    @property
    def views(self) -> dict[str, ViewReport]:
        """The views that were looked at, by name."""
        return {view.view: view for epoch in self.epochs for view in epoch.views}

    @property
    def failed(self) -> dict[str, str]:
        """The errors of the views that stopped, by name."""
        return {view.view: view.error for view in self.views.values() if view.error is not None}


@dataclass(frozen=True)
class Verification:
    """A view beside its oracle: how many rows each has that the other has not, and the first of them."""

    view: str
    epoch: int
    rows: int
    missing: int
    extra: int
    tolerance: float
    examples: list[dict[str, Any]] = field(default_factory=list)

    @property
    def equal(self) -> bool:
        return self.missing == 0 and self.extra == 0
