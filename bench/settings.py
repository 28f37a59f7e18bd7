"""How much of everything a run does. The sizes are the store's; another benchmark scales its own."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SMALL = 0.04
"""`--scale small`: enough to see that everything works, too little for figures."""

SEED = 20_240_229


@dataclass(frozen=True)
class Settings:
    """`folder` is where databases are made; whoever made the settings removes it."""

    folder: Path
    quick: bool = False
    scale: float = 1.0
    seed: int = SEED

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
        return 2 if self.quick else 5

    def sizes(self) -> dict[str, int]:
        names = ("rows", "probes", "reads", "writes", "bulk_repetitions", "repetitions")
        return {name: getattr(self, name) for name in names}

    def scaled(self, size: int) -> int:
        return max(10, round(size * self.scale))
