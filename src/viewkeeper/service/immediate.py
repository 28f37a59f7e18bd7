"""Writes from any number of threads: plainly where nobody watches, together with the immediate views where they do.

Transactions that come while one is under way wait for it, and then share the next epoch: the first of them to get its turn
takes all that wait along (group commit). So under load an epoch's fixed cost is paid once for many. Other processes
take their turn by the lease of the immediate group.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from viewkeeper.store.contract import Expectation, Guarded, Mutation, Outcome, Request, Store

Write = Callable[[Sequence[Request]], Sequence[Outcome]]


@dataclass
class Ticket:
    """A transaction that waits, and what became of it."""

    request: Request
    outcome: Outcome | BaseException | None = None

    def answer(self) -> bool:
        """What the caller is told."""
        assert self.outcome is not None, "its turn has passed"
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


@dataclass
class Writer:
    """Where tables and transactions write. `together` writes guarded tables: see `engine.together`."""

    store: Store
    together: Write
    _guarded: frozenset[str] = frozenset()
    _waiting: list[Ticket] = field(default_factory=list)
    _turns: threading.Condition = field(default_factory=threading.Condition)
    _busy: bool = False
    _threads: dict[int, ThreadPoolExecutor] = field(default_factory=dict)

    @property
    def _thread(self) -> ThreadPoolExecutor:
        """One thread runs all epochs, whoever's they are: Spark keeps something for each thread that it has met.

        A fork has none of its parent's threads, so it gets one of its own.
        """
        if os.getpid() not in self._threads:
            self._threads[os.getpid()] = ThreadPoolExecutor(max_workers=1, thread_name_prefix="immediate views")
        return self._threads[os.getpid()]

    def write(self, mutations: Sequence[Mutation], expected: Sequence[Expectation] = ()) -> bool:
        """See `Store.write`; when it returns, the immediate views over the tables say so too."""
        if self._guarded.isdisjoint(mutation.table for mutation in mutations):
            try:
                return self.store.write(mutations, expected)
            except Guarded as guarded:
                self._remember(guarded.group)
        return self._in_turn(Ticket(Request(mutations, expected)))

    def _remember(self, group: str) -> None:
        """What is guarded, so that the next write need not wait for locks to find out. It may be out of date: no harm."""
        self._guarded = frozenset(self.store.group(group).committed.cut)

    def _in_turn(self, ticket: Ticket) -> bool:
        """An error here, or an interrupt, takes the ticket back, unless its epoch has begun.

        A ticket left behind would be carried out with the next write, over what others have written since.
        """
        turn: list[Ticket] = []
        try:
            with self._turns:
                self._waiting.append(ticket)
                self._turns.wait_for(lambda: ticket.outcome is not None or not self._busy)
                if ticket.outcome is None:  # one statement without a call: no interrupt comes in the middle
                    turn, self._waiting, self._busy = self._waiting, [], True
            if turn:
                self._thread.submit(self._take_along, turn).result()
        except BaseException:
            self._take_back(ticket, turn)
            raise
        return ticket.answer()

    def _take_back(self, ticket: Ticket, turn: list[Ticket]) -> None:
        """The others of a turn that has not begun wait again, and one of them is next."""
        with self._turns:
            not_begun = bool(turn)
            self._waiting = [other for other in (*turn, *self._waiting) if other is not ticket]
            turn.clear()
            if not_begun:
                self._busy = False
                self._turns.notify_all()

    def _take_along(self, turn: list[Ticket]) -> None:
        """The epoch of some transactions. It ends in its own thread, whatever becomes of those who wait for it.

        It begins by emptying the turn, so nothing of it can be taken back any more. One that was taken back is empty, and may
        still come here: the thread's queue keeps what it was given even where giving it ended in an error.
        """
        with self._turns:
            tickets = list(turn)
            turn.clear()
        if tickets:
            self._run(tickets)

    def _run(self, tickets: Sequence[Ticket]) -> None:
        outcomes: Sequence[Outcome | BaseException]
        try:
            outcomes = self.together([ticket.request for ticket in tickets])
        except BaseException as error:  # it is everyone's, and each must hear of it
            outcomes = [error] * len(tickets)
        with self._turns:
            for ticket, outcome in zip(tickets, outcomes, strict=True):
                ticket.outcome = outcome
            self._busy = False
            self._turns.notify_all()
