"""A checker of histories: how true views were to their tables, as readers saw it.

Record what was done to the tables, in order, and what readers saw; it names the level of consistency that the history
meets, and the first thing that speaks against the next one. The levels are those of the literature: convergence, weak,
strong, complete (`levels` defines them and argues the method).

>>> def total(tables):
...     return [(sum(amount for _, amount in tables["sales"]),)]
>>> history = History({"total": total}, {"sales": []})
>>> history.look({"total": [(0,)]}).number
1
>>> history.transaction(inserted("sales", (1, 50)), name="first")
1
>>> history.transaction(inserted("sales", (2, 100)), name="second")
2
>>> history.look({"total": [(150,)]}, final=True).number
2
>>> print(history.verdict())
strong, not complete: no reader that saw all before it saw the state after transaction "first"

What it can decide is what readers can: a wrong state that nobody saw is not in the history. Where several processes wrote,
their transactions have no order but the one in the logs: `logged_history` reads it there.
"""

from viewkeeper.testing.consistency.base import Change, Transaction, deleted, inserted, updated
from viewkeeper.testing.consistency.history import History
from viewkeeper.testing.consistency.levels import CounterExample, Level, Verdict
from viewkeeper.testing.consistency.logs import logged_history
from viewkeeper.testing.consistency.observations import Observation

__all__ = [
    "Change",
    "CounterExample",
    "History",
    "Level",
    "Observation",
    "Transaction",
    "Verdict",
    "deleted",
    "inserted",
    "logged_history",
    "updated",
]
