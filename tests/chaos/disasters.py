"""The faults of a campaign. Each does its harm, waits until it has been felt, and leaves what it broke to `Site.recover`.

Waits are for events: a process has died, another leads, an epoch was committed or failed. Only a suspended writer sleeps by
the clock, for nobody notices it.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from functools import partial

import _neighbours  # noqa: F401  # puts the folders beside this one on the path
from grounds import LEASE, Site
from journals import REFUSED, UNKNOWN, notes
from places import Place
from processes import Driver, awaited
from standalone import kill
from support import store_of

from viewkeeper.store.embedded.faults import FAULT_POINTS

Disaster = Callable[[Site], None]

DRIVER_POINTS = tuple(point for point in FAULT_POINTS if point.startswith(("begin.", "apply.", "commit.")))
WORKER_POINTS = tuple(point for point in FAULT_POINTS if point.startswith("apply."))
WRITER_POINTS = tuple(point for point in FAULT_POINTS if point.startswith(("transaction.", "prepare.")))


def kill_driver(site: Site) -> None:
    """The Python process alone, whose Java then finds its input closed; or both at once."""
    leader = site.leader()
    send = leader.send_all if site.chance.random() < 0.5 else leader.send
    send(signal.SIGKILL)
    site.let_go(leader)


def suspend_driver(site: Site) -> None:
    """Past its lease: another takes over and commits; the old one, waking up, finds that it has lost."""
    leader = site.leader()
    other = next(driver for driver in site.drivers if driver is not leader)
    awaited(lambda: other.count("waiting") > 0, "the other stands by")
    leader.send(signal.SIGSTOP)
    other.await_more("epoch")
    leader.send(signal.SIGCONT)
    awaited(lambda: leader.count("lost", "waiting", "resigned") > 0 and not leader.leads, "it knows that it has lost")


def kill_executor(site: Site) -> None:
    """One of them, the leader's or the other's, or all at once."""
    assert site.cluster is not None
    find = site.cluster.executors
    awaited(lambda: bool(find()), "there is an executor")
    _kill_some(site, sorted(find()))


def kill_python_worker(site: Site) -> None:
    """One of them, or all at once: among those are the ones that are at work, and the ones that fork others."""
    awaited(lambda: bool(site.python_workers()), "there is a Python worker")
    _kill_some(site, site.python_workers())


def _kill_some(site: Site, pids: list[int]) -> None:
    for pid in pids if site.chance.random() < 0.5 else [site.chance.choice(pids)]:
        kill(pid)


def kill_writer(site: Site) -> None:
    number = site.chance.choice(sorted(site.writers))
    site.writers[number].kill()
    site.start_writer(number)


def suspend_writer(site: Site) -> None:
    """In the middle of whatever it does; others that need its locks wait, or have an error that says so."""
    writer = site.writers[site.chance.choice(sorted(site.writers))]
    writer.send(signal.SIGSTOP)
    time.sleep(LEASE)
    writer.send(signal.SIGCONT)


def writer_dies_at(point: str, site: Site) -> None:
    number = site.chance.choice(sorted(site.writers))
    site.writers[number].kill()
    armed = site.start_writer(number, f"{point}:{site.chance.randint(1, 4)}")
    awaited(lambda: not armed.is_alive, f"the writer dies at {point}")
    armed.wait()
    site.start_writer(number)


def driver_dies_at(point: str, site: Site) -> None:
    """An armed run stands by, the leader is killed, and the armed one dies in the first epochs that it leads."""
    inline = point.startswith("apply.")
    count = site.chance.randint(1, 6) if inline else 1
    armed = _takes_over(site, fault=f"{point}:{count}", tasks=not inline)
    awaited(lambda: not armed.is_alive, f"the driver dies at {point}")
    site.let_go(armed)


def workers_die_at(point: str, site: Site) -> None:
    """Every Python worker dies there, until the driver that had them is gone."""
    armed = _takes_over(site, fault=point, where="workers")
    armed.await_more("failed", "epoch")
    armed.send_all(signal.SIGKILL)
    site.let_go(armed)


def _takes_over(site: Site, **options: object) -> Driver:
    """A driver of that kind leads: whoever else does is killed, until it is its turn."""
    armed = site.add_driver(**options)
    awaited(lambda: armed.count("waiting", "leading") > 0, "it stands by")
    while not armed.count("leading"):
        awaited(lambda: armed.count("leading") > 0 or any(driver.leads for driver in site.drivers), "somebody leads")
        for other in [driver for driver in site.drivers if driver.leads and driver is not armed]:
            other.send_all(signal.SIGKILL)
            site.let_go(other)
    return armed


def fill_disk(place: Place, site: Site) -> None:
    """Until writers have felt it a few times."""
    felt = _refusals(site) + 3
    with place.full():
        awaited(lambda: _refusals(site) >= felt, "writers find the disk full")


def _refusals(site: Site) -> int:
    return sum(note.word in (REFUSED, UNKNOWN) for note in notes(site.notes).values())


def hide_file(place: Place, site: Site) -> None:
    """A region of a table that every epoch reads cannot be opened; who has it open goes on. So another driver takes over."""
    leader = site.leader()
    other = next(driver for driver in site.drivers if driver is not leader)
    awaited(lambda: other.count("waiting") > 0, "the other stands by")
    with place.unreadable(store_of(site.db)._files.handle("transfers").paths[0]):
        leader.send_all(signal.SIGKILL)
        site.let_go(leader)
        other.await_more("failed", "epoch")


def all_of(site: Site, place: Place) -> dict[str, Disaster]:
    """Every kind of fault that this site can have, by name."""
    found: dict[str, Disaster] = {
        "driver killed": kill_driver,
        "driver suspended": suspend_driver,
        "python worker killed": kill_python_worker,
        "writer killed": kill_writer,
        "writer suspended": suspend_writer,
    }
    if site.cluster is not None:
        found["executor killed"] = kill_executor
    if place.can_be_filled:
        found["disk full"] = partial(fill_disk, place)
    found["file unreadable"] = partial(hide_file, place)
    found |= {f"driver dies at {point}": partial(driver_dies_at, point) for point in DRIVER_POINTS}
    found |= {f"workers die at {point}": partial(workers_die_at, point) for point in WORKER_POINTS}
    found |= {f"writer dies at {point}": partial(writer_dies_at, point) for point in WRITER_POINTS}
    return found
