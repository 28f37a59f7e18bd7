"""How much of everything a run does. The named sizes are the store's; another experiment scales its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from viewkeeper.bench.shared import Shared

SMALL = 0.04
"""`--scale small`: enough to see that everything works, too little for figures."""

SEED = 20_240_229


@dataclass(frozen=True)
class Settings:
    """`folder` is where databases are made; whoever made the settings removes it.

    `shared` has the tables of the whole run. `peers` are further interpreters in which other systems may be installed.
    """

    folder: Path
    shared: Shared
    quick: bool = False
    scale: float = 1.0
    seed: int = SEED
    peers: tuple[str, ...] = ()

    @property
    def short(self) -> bool:
        """Too little for figures worth keeping, and for limits that were stated for the full sizes."""
        return self.quick or self.scale < 1

    @property
    def rows(self) -> int:
        return self.scaled(50_000 if self.quick else 1_000_000)

    @property
    def probes(self) -> int:
        return self.scaled(5_000 if self.quick else 100_000)

    @property
    def reads(self) -> int:
        """Point reads per repetition."""
        return self.scaled(500 if self.quick else 2_000)

    @property
    def writes(self) -> int:
        """Single-row writes per repetition, each of which waits for the disk."""
        return self.scaled(50 if self.quick else 200)

    @property
    def bulk_repetitions(self) -> int:
        return 2 if self.quick else 3

    @property
    def repetitions(self) -> int:
        return 2 if self.quick else 4

    def size(self, full: int, quick: int) -> int:
        """One of the two by the kind of run, scaled."""
        return self.scaled(quick if self.quick else full)

    def sizes(self) -> dict[str, int]:
        names = ("rows", "probes", "reads", "writes", "bulk_repetitions", "repetitions")
        return {name: getattr(self, name) for name in names}

    def scaled(self, size: int) -> int:
        return max(10, round(size * self.scale))
