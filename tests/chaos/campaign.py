"""The fault campaign: writers, readers and runs over one database, and a fault after the other.

    python tests/chaos/campaign.py --seconds 300 --seed 7      what `make chaos` does
    python tests/chaos/campaign.py --short --seed 7            the most telling faults, with Spark in the drivers' own processes
    python tests/chaos/campaign.py --short --only disk         those of one kind, once each; without --short, again and again

Faults come from a deck of all kinds, shuffled by the seed; when it is through, it is shuffled again. After each fault the views
must come to where the tables were by then, and then: no acknowledged write is lost, none is there twice, and every view
is its query over the tables of its cut. At the end also: `verify` agrees (Spark evaluates every query from scratch), the
files are sound, and the history of all that the readers saw is strongly consistent. It ends with 1 and the counter-example
otherwise. The choice of faults and of what writers write follows from the seed; the moment of a fault does not.
"""

from __future__ import annotations

import argparse
import random
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import _neighbours  # noqa: F401  # puts the folders beside this one on the path
from disasters import Disaster, all_of
from grounds import Site
from places import Place, prepared
from processes import Broken
from scene import create
from standalone import Standalone
from support import check_files
from witnesses import testify

import viewkeeper as vk

SHORT = (
    "python worker killed",
    "driver suspended",
    "writer dies at prepare.decided",
    "writer killed",
    "driver killed",
)


def deck(disasters: dict[str, Disaster], chance: random.Random) -> Iterator[str]:
    """Every kind once, in some order; then again."""
    while True:
        names = sorted(disasters)
        chance.shuffle(names)
        yield from names


def strike(site: Site, name: str, disaster: Disaster, began: float) -> None:
    """One fault, and all is well again."""
    started = time.monotonic()
    disaster(site)
    site.recover()
    site.survived[name] += 1
    took = time.monotonic() - started
    print(f"{time.monotonic() - began:6.1f} s  {name}: survived in {took:.1f} s", flush=True)


@dataclass(frozen=True)
class Wish:
    """What is asked for."""

    seconds: float
    seed: str
    short: bool
    local: bool
    only: str

    def names(self, disasters: dict[str, Disaster], chance: random.Random) -> Iterable[str]:
        """The faults in their order: once each in the short form, else without end."""
        wanted = {name: disasters[name] for name in disasters if self.only in name}
        if not wanted:
            raise SystemExit(f"no fault here has {self.only!r} in its name: there are {', '.join(disasters)}")
        if self.short:
            return sorted(wanted) if self.only else SHORT
        return deck(wanted, chance)


def campaign(site: Site, place: Place, wish: Wish) -> None:
    """Faults until the time is over, or each of the short form's once."""
    disasters = all_of(site, place)
    names = wish.names(disasters, site.chance)
    began = time.monotonic()
    site.start()
    site.recover()
    print(f"{time.monotonic() - began:6.1f} s  begun", flush=True)
    for name in names:
        if not wish.short and time.monotonic() - began > wish.seconds:
            break
        strike(site, name, disasters[name], began)
    site.finish()


def judge(site: Site) -> None:
    """What can only be asked at the end, or costs too much before it."""
    site.check()
    for view in site.db.views():
        verification = site.db.verify(view.name)
        if not verification.equal:
            raise Broken(str(verification))
    check_files(site.place)
    for line in testify(site):
        print(line, flush=True)


def report(site: Site, place: Place, seed: str) -> None:
    print(f"survived {sum(site.survived.values())} faults, seed {seed}:")
    for name, times in sorted(site.survived.items()):
        print(f"  {times:3d}  {name}")
    if not place.can_be_filled:
        print("  left out: a full disk, for a file system that can be filled takes root to mount")


def main(wish: Wish) -> int:
    notes = Path(tempfile.mkdtemp(prefix="viewkeeper-chaos-"))
    with ExitStack() as stack:
        place = stack.enter_context(prepared(notes / "disk"))
        cluster = None
        if not (wish.short or wish.local):
            cluster = stack.enter_context(Standalone(notes / "cluster", cores=4))
            for _ in range(2):
                cluster.add_worker()
        db = stack.enter_context(vk.open(place.folder / "bank.vk", durability="off"))
        create(db)
        site = Site(db, place.folder / "bank.vk", notes, wish.seed, cluster)
        stack.callback(site.clear)
        try:
            campaign(site, place, wish)
            judge(site)
        except Broken as broken:
            site.clear()
            shutil.copytree(place.folder, notes / "database")
            print(f"BROKEN, seed {wish.seed}, notes and database in {notes}: {broken}", flush=True)
            return 1
        report(site, place, wish.seed)
    shutil.rmtree(notes, ignore_errors=True)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Faults against a running database.")
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--seed", default=None, help="the same faults in the same order")
    parser.add_argument("--short", action="store_true", help="the most telling faults once each, without a cluster")
    parser.add_argument("--local", action="store_true", help="without a cluster: tasks run on each driver's own cores")
    parser.add_argument("--only", default="", help="faults with this in their name")
    given = parser.parse_args()
    given.seed = given.seed or str(random.randrange(1_000_000))
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(1))  # as Ctrl-C does: nothing of it lives on
    print(f"seed {given.seed}", flush=True)
    sys.exit(main(Wish(**vars(given))))
