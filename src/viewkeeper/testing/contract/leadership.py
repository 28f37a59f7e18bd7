"""Leadership: one leader at a time, terms that only grow, and fences that a lower term does not pass."""

from __future__ import annotations

import time

import pytest

from viewkeeper.errors import Fenced
from viewkeeper.store.contract import Lease, Store
from viewkeeper.testing.contract.support import (
    GROUP,
    TOTALS,
    Reopen,
    StoreFixtures,
    apply_all,
    changes,
    created,
    everything,
    region_of,
    through_a_restart,
)

LONG, SHORT = 60.0, 0.05
PATIENCE = 60.0
"""Seconds after which what should have happened is taken for something that never will."""

HOME = region_of(TOTALS, "g")


def _led(store: Store, holder: str, seconds: float = LONG, name: str = "main") -> Lease:
    lease = store.lead(name, holder, seconds)
    assert lease is not None
    return lease


def _awaited(store: Store, holder: str, name: str = "main") -> Lease:
    """Leadership as soon as the holder before lets go or expires."""
    limit = time.monotonic() + PATIENCE
    while time.monotonic() < limit:
        if (lease := store.lead(name, holder, LONG)) is not None:
            return lease
        time.sleep(0.01)
    raise AssertionError("leadership never became free")


class LeadershipContract(StoreFixtures):
    def test_one_leads_at_a_time(self, store: Store, other: Store) -> None:
        before = time.time()
        lease = _led(store, "a")
        assert (lease.name, lease.holder) == ("main", "a")
        assert before + LONG <= lease.expires <= time.time() + LONG
        assert other.lead("main", "b", LONG) is None
        assert _led(other, "b", name="side").holder == "b"

    def test_resigning_lets_the_next_one_lead_at_once(self, store: Store, other: Store) -> None:
        first = _led(store, "a")
        store.resign(first)
        second = _led(other, "b")
        assert second.term > first.term
        store.resign(first)
        assert store.lead("main", "c", LONG) is None

    def test_an_expired_lease_passes_on(self, store: Store, other: Store) -> None:
        first = _led(store, "a", SHORT)
        second = _awaited(other, "b")
        assert second.term > first.term
        assert time.time() >= first.expires
        with pytest.raises(Fenced):
            store.renew(first, LONG)

    def test_renewing_keeps_the_term_and_the_others_out(self, store: Store, other: Store) -> None:
        lease = _led(store, "a", SHORT)
        renewed = store.renew(lease, LONG)
        assert (renewed.name, renewed.holder, renewed.term) == (lease.name, lease.holder, lease.term)
        assert renewed.expires > lease.expires
        time.sleep(2 * SHORT)
        assert other.lead("main", "b", LONG) is None

    def test_a_holder_that_leads_again_is_not_its_former_self(self, store: Store) -> None:
        first = _led(store, "a")
        second = _led(store, "a")
        assert second.term > first.term
        with pytest.raises(Fenced):
            store.renew(first, LONG)
        store.resign(first)
        assert store.lead("main", "b", LONG) is None
        assert store.renew(second, LONG).term == second.term

    def test_terms_grow_for_ever(self, store: Store, reopen: Reopen) -> None:
        terms = []
        for holder in ("a", "b", "a"):
            lease = _led(store, holder)
            terms.append(lease.term)
            store.resign(lease)
        store = reopen()
        terms += [_led(store, "c").term, _led(store, "c").term]
        assert terms == sorted(set(terms))
        assert terms[0] > 0

    def test_a_lease_outlives_its_process(self, store: Store, reopen: Reopen) -> None:
        lease = _led(store, "a")
        store = reopen()
        assert store.lead("main", "b", LONG) is None
        assert store.renew(lease, LONG).term == lease.term

    def test_a_fence_stops_every_lower_term(self, store: Store, other: Store, reopen: Reopen) -> None:
        created(store, TOTALS)
        running = store.begin(GROUP, {}, 1).epoch
        apply_all(store, TOTALS, changes(TOTALS, [("g", 1.0, 1)]), running, term=1)
        other.fence(GROUP, 5)
        for handle in through_a_restart(store, reopen):
            self._check_fenced(handle, running, term=4)
        last = reopen()
        assert last.group(GROUP).running is not None
        assert everything(last, "totals") == []
        assert everything(last, "totals", (running,) * 3) == [("g", 1.0, 1)]

    def _check_fenced(self, store: Store, running: int, term: int) -> None:
        with pytest.raises(Fenced):
            store.begin(GROUP, {}, term)
        with pytest.raises(Fenced):
            store.apply("totals", (HOME + 1) % 3, changes(TOTALS), running, term)
        with pytest.raises(Fenced):
            store.commit(GROUP, running, term)
        with pytest.raises(Fenced):
            store.undo(GROUP, running, term)
        with pytest.raises(Fenced):
            store.fence(GROUP, term)

    def test_the_fencing_term_and_higher_ones_go_on(self, store: Store) -> None:
        created(store, TOTALS)
        running = store.begin(GROUP, {"pairs": (1,)}, 1)
        store.fence(GROUP, 5)
        store.fence(GROUP, 5)
        assert store.begin(GROUP, {"pairs": (2,)}, 5) == running
        apply_all(store, TOTALS, changes(TOTALS, [("g", 1.0, 1)]), running.epoch, term=5)
        store.commit(GROUP, running.epoch, 6)
        assert everything(store, "totals") == [("g", 1.0, 1)]

    def test_a_fence_is_for_one_group(self, store: Store) -> None:
        created(store, TOTALS)
        store.create_group("side")
        store.fence("side", 9)
        assert store.begin(GROUP, {}, 1).epoch == 1
