"""The store contract as a test suite: a store joins by a subclass that gives its fixtures.

```python
class TestMyStore(StoreContract):
    @pytest.fixture
    def store(self):
        return MyStore()

    @pytest.fixture
    def reopen(self, store):
        return lambda: store

    @pytest.fixture
    def other(self, store):
        return store
```

One module per part of the contract. Where the contract leaves a choice (the order of rows within one write's log, the
order of a probe's answers, whether an apply that changes nothing moves the position) the tests leave it too.
"""

import pytest

_PARTS = (
    *("support", "tables", "writes", "reads", "probes", "logs", "trims", "epochs", "leadership", "records", "values"),
    *("prepared", "model"),
)
pytest.register_assert_rewrite(*(f"{__name__}.{part}" for part in _PARTS))

from viewkeeper.testing.contract.epochs import EpochContract  # noqa: E402  assertions are rewritten on import
from viewkeeper.testing.contract.leadership import LeadershipContract  # noqa: E402
from viewkeeper.testing.contract.logs import LogContract  # noqa: E402
from viewkeeper.testing.contract.model import ModelContract  # noqa: E402
from viewkeeper.testing.contract.prepared import EarlyCutContract, PreparedContract  # noqa: E402
from viewkeeper.testing.contract.probes import ProbeContract  # noqa: E402
from viewkeeper.testing.contract.reads import ReadContract  # noqa: E402
from viewkeeper.testing.contract.records import RecordContract  # noqa: E402
from viewkeeper.testing.contract.tables import TableContract  # noqa: E402
from viewkeeper.testing.contract.trims import TrimContract  # noqa: E402
from viewkeeper.testing.contract.values import ValueContract  # noqa: E402
from viewkeeper.testing.contract.writes import WriteContract  # noqa: E402

__all__ = ["StoreContract"]


class StoreContract(
    TableContract,
    WriteContract,
    ReadContract,
    ProbeContract,
    LogContract,
    TrimContract,
    EpochContract,
    LeadershipContract,
    RecordContract,
    ValueContract,
    PreparedContract,
    EarlyCutContract,
    ModelContract,
):
    """Every promise of `viewkeeper.store.contract`. Subclass it, name the class `Test...`, and give the fixtures."""
