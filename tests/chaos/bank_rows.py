"""The tables of the fault campaign: those of the bank, and pings. Every row has the name of the transaction that wrote it."""

from __future__ import annotations

import viewkeeper as vk


def create_tables(db: vk.Database) -> None:
    db.create_table(
        "transfers",
        "id BIGINT, source INT, target INT, amount BIGINT, made_by STRING",
        primary_key="id",
        regions=2,
    )
    db.create_table(
        "entries",
        "transfer BIGINT, account INT, amount BIGINT, made_by STRING",
        primary_key=("transfer", "account"),
        regions=2,
    )
    db.create_table("pings", "id BIGINT, writer INT, amount BIGINT, made_by STRING", primary_key="id", regions=2)
