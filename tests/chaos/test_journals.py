"""The laws of the campaign's journals: each way of breaking one is found. No Spark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import bank_rows
import pytest
from journals import DONE, PING, REFUSED, TRANSFER, TRIED, UNKNOWN, Journal, Ledger

import viewkeeper as vk


@pytest.fixture
def db(tmp_path: Path) -> Iterator[vk.Database]:
    with vk.open(tmp_path / "db.vk", durability="off") as database:
        bank_rows.create_tables(database)
        yield database


@pytest.fixture
def journal(tmp_path: Path) -> Iterator[Journal]:
    opened = Journal(tmp_path / "1-1.journal")
    yield opened
    opened.close()


def complaints(db: vk.Database, tmp_path: Path) -> list[str]:
    return Ledger(db._store).complaints(tmp_path)


def transfer(db: vk.Database, name: str, key: int = 1) -> None:
    with db.transaction() as tx:
        tx.table("transfers").put({"id": key, "source": 1, "target": 2, "amount": 5, "made_by": name})
        sides = ((1, -5), (2, 5))
        tx.table("entries").put(
            [{"transfer": key, "account": account, "amount": side, "made_by": name} for account, side in sides]
        )


def test_what_was_acknowledged_is_there(db: vk.Database, journal: Journal, tmp_path: Path) -> None:
    for word in (TRIED, DONE):
        journal.write(word, "a", TRANSFER)
    assert complaints(db, tmp_path) == ["acknowledged transfer a is lost"]
    transfer(db, "a")
    assert complaints(db, tmp_path) == []


def test_nothing_is_there_twice(db: vk.Database, journal: Journal, tmp_path: Path) -> None:
    journal.write(DONE, "a", TRANSFER)
    ledger = Ledger(db._store)
    transfer(db, "a")
    assert ledger.complaints(tmp_path) == []
    transfer(db, "a", key=2)
    twice = "transfer a (done) is in the logs as {'transfers': 2, 'entries': 4}"
    assert ledger.complaints(tmp_path) == [twice], "it reads on from where it was"
    assert complaints(db, tmp_path) == [twice]


def test_nothing_is_there_by_half(db: vk.Database, journal: Journal, tmp_path: Path) -> None:
    journal.write(TRIED, "a", TRANSFER)
    db.table("transfers").put({"id": 1, "source": 1, "target": 2, "amount": 5, "made_by": "a"})
    assert complaints(db, tmp_path) == ["transfer a (tried) is in the logs as {'transfers': 1}"]


@pytest.mark.parametrize("word", [TRIED, UNKNOWN])
def test_what_was_in_flight_may_be_there_or_not(db: vk.Database, journal: Journal, tmp_path: Path, word: str) -> None:
    journal.write(word, "a", PING)
    assert complaints(db, tmp_path) == []
    db.table("pings").put({"id": 1, "writer": 1, "amount": 5, "made_by": "a"})
    assert complaints(db, tmp_path) == []


def test_what_was_refused_is_not_there(db: vk.Database, journal: Journal, tmp_path: Path) -> None:
    journal.write(REFUSED, "a", PING)
    assert complaints(db, tmp_path) == []
    db.table("pings").put({"id": 1, "writer": 1, "amount": 5, "made_by": "a"})
    assert complaints(db, tmp_path) == ["ping a was refused, and is in the logs"]


def test_what_nobody_wrote_is_not_there(db: vk.Database, tmp_path: Path) -> None:
    db.table("pings").put({"id": 1, "writer": 1, "amount": 5, "made_by": "a"})
    assert complaints(db, tmp_path) == ["a is in the logs, and nobody wrote it"]
