"""Statements mean exactly what they say: what is not supported is an error that names it."""

from __future__ import annotations

import logging

import pyarrow as pa
import pytest

from viewkeeper.errors import InvalidName, SchemaError, StatementError
from viewkeeper.sql.statements import CreateTable, DropTable, parse_statement

SCHEMA = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("product", pa.string())])


def test_create_table() -> None:
    assert parse_statement("CREATE TABLE events (id BIGINT PRIMARY KEY, product STRING)") == CreateTable(
        name="events", schema=SCHEMA, key=("id",)
    )


def test_create_table_with_everything() -> None:
    text = """
        -- what was sold
        create table if not exists `Sales` (
            Shop INT, id BIGINT, note STRING NOT NULL, CONSTRAINT pk PRIMARY KEY (shop, id)
        ) TBLPROPERTIES ('regions' = '8', 'distribution' = 'shop');
    """
    statement = parse_statement(text)
    assert isinstance(statement, CreateTable)
    assert statement.name == "Sales"
    assert statement.key == ("Shop", "id")
    assert statement.regions == 8
    assert statement.distribution == ("Shop",)
    assert statement.if_not_exists
    assert [field.nullable for field in statement.schema] == [False, False, False]


def test_drop_table() -> None:
    assert parse_statement("DROP TABLE events") == DropTable("events")
    assert parse_statement("drop table if exists events;") == DropTable("events", if_exists=True)


@pytest.mark.parametrize(
    ("text", "clause"),
    [
        ("CREATE OR REPLACE TABLE t (id INT PRIMARY KEY)", "OR REPLACE"),
        ("CREATE TEMPORARY TABLE t (id INT PRIMARY KEY)", "TEMPORARY"),
        ("CREATE EXTERNAL TABLE t (id INT PRIMARY KEY)", "EXTERNAL"),
        ("CREATE TABLE t (id INT PRIMARY KEY) AS SELECT 1 AS id", "AS SELECT"),
        ("CREATE TABLE t AS SELECT 1 AS id", "AS SELECT"),
        ("CREATE TABLE t (id INT PRIMARY KEY) USING delta", "USING"),
        ("CREATE TABLE t (id INT PRIMARY KEY) PARTITIONED BY (id)", "PARTITIONED BY"),
        ("CREATE TABLE t (id INT PRIMARY KEY) CLUSTER BY (id)", "CLUSTER BY"),
        ("CREATE TABLE t (id INT PRIMARY KEY) CLUSTERED BY (id) INTO 3 BUCKETS", "CLUSTERED BY"),
        ("CREATE TABLE t (id INT PRIMARY KEY) COMMENT 'x'", "COMMENT"),
        ("CREATE TABLE t (id INT PRIMARY KEY) LOCATION '/x'", "LOCATION"),
        ("CREATE TABLE t (id INT PRIMARY KEY) OPTIONS (a = 3)", "OPTIONS"),
        ("CREATE TABLE t LIKE u", "LIKE"),
        ("CREATE TABLE t CLONE u", "CLONE"),
        ("CREATE TABLE t (id INT PRIMARY KEY, LIKE u)", "LIKE"),
        ("CREATE TABLE t (id INT PRIMARY KEY DEFAULT 3)", "DEFAULT"),
        ("CREATE TABLE t (id INT PRIMARY KEY COMMENT 'x')", "COMMENT"),
        ("CREATE TABLE t (id INT PRIMARY KEY CHECK (id > 3))", "CHECK"),
        ("CREATE TABLE t (id INT PRIMARY KEY, CHECK (id > 3))", "CHECK"),
        ("CREATE TABLE t (id INT PRIMARY KEY REFERENCES u (id))", "REFERENCES"),
        ("CREATE TABLE t (id INT PRIMARY KEY, FOREIGN KEY (id) REFERENCES u (id))", "FOREIGN KEY"),
        ("CREATE TABLE t (id INT PRIMARY KEY, b INT GENERATED ALWAYS AS (id + 1))", "AS"),
        ("CREATE TABLE t (id INT PRIMARY KEY, b INT UNIQUE)", "UNIQUE"),
        ("CREATE TABLE t (id INT PRIMARY KEY, b STRING COLLATE UTF8_LCASE)", "COLLATE"),
        ("CREATE TABLE t (id INT PRIMARY KEY NOT ENFORCED)", "NOT ENFORCED"),
        ("CREATE TABLE t (id INT, PRIMARY KEY (id) RELY)", "RELY"),
        ("CREATE TABLE t (id INT PRIMARY KEY DESC)", "DESC"),
        ("CREATE TABLE t (id INT PRIMARY KEY FIRST)", "FIRST"),
        ("CREATE TABLE t (id INT PRIMARY KEY) TBLPROPERTIES (regions = 8)", "regions"),
        ("DROP TABLE t CASCADE", "CASCADE"),
        ("DROP TABLE t PURGE", "PURGE"),
    ],
)
def test_unsupported_clauses_are_named(text: str, clause: str) -> None:
    with pytest.raises(StatementError, match="not supported") as caught:
        parse_statement(text)
    assert clause in caught.value.message


@pytest.mark.parametrize(
    ("text", "opening"),
    [
        ("SELECT 1", "SELECT"),
        ("INSERT INTO t VALUES (1)", "INSERT"),
        ("DELETE FROM t", "DELETE"),
        ("ALTER TABLE t ADD COLUMN x INT", "ALTER TABLE"),
        ("CREATE VIEW v AS SELECT 1", "CREATE VIEW"),
        ("DROP VIEW v", "DROP VIEW"),
        ("DROP t", "DROP t"),
        ("CREATE TABLE t (id INT PRIMARY KEY) foo bar", "CREATE TABLE t (id INT PRIMARY KEY) foo bar"),
        ("SHOW TABLES", "SHOW"),
    ],
)
def test_other_statements_list_what_exists(text: str, opening: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING), pytest.raises(StatementError, match="cannot be executed") as caught:
        parse_statement(text)
    assert caught.value.message.startswith(opening)
    assert "CREATE TABLE" in str(caught.value.hint)
    assert "DROP TABLE" in str(caught.value.hint)
    assert not caplog.records


def test_syntax_errors_say_where() -> None:
    with pytest.raises(StatementError) as caught:
        parse_statement("CREATE TABLE t (\n  id BIGINT PRIMARY KEY,\n  product FOO\n)")
    assert caught.value.message == 'syntax error at line 3, column 11, near "FOO": expecting )'
    assert caught.value.fields == {"line": 3, "column": 11, "text": "FOO"}


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("", "no statement"),
        (" ; -- nothing", "no statement"),
        ("DROP TABLE a; DROP TABLE b", "2 statements"),
        ("DROP TABLE", "expected table name"),
        ("DROP TABLE a, b", "one table"),
        ("DROP TABLE a.b", "more than one part"),
        ("CREATE TABLE a.b (id INT PRIMARY KEY)", "more than one part"),
        ("CREATE TABLE t", "needs columns"),
        ("CREATE TABLE t (id INT PRIMARY KEY", "syntax error"),
        ("CREATE TABLE t (id INT PRIMARY KEY 'x", "not closed"),
        ("CREATE TABLE t (id)", "has no type"),
        ("CREATE TABLE t ('id' INT)", "not a column name"),
        ("CREATE TABLE t (a.b INT)", "not a column name"),
        ("CREATE TABLE t (id INT, PRIMARY KEY ())", "syntax error"),
        ("CREATE TABLE t (id TIMESTAMP WITHOUT TIME ZONE PRIMARY KEY)", "WITHOUT TIME ZONE"),
        ("CREATE TABLE t (id INT PRIMARY KEY) TBLPROPERTIES ('regions' = '0')", "'regions' cannot be '0'"),
        ("CREATE TABLE t (id INT PRIMARY KEY) TBLPROPERTIES ('regions' = 'many')", "'regions' cannot be 'many'"),
        ("CREATE TABLE t (id INT PRIMARY KEY) TBLPROPERTIES ('region' = '3')", "'region' does not exist"),
        ("CREATE TABLE t (id INT PRIMARY KEY) TBLPROPERTIES ('regions' = '3', 'regions' = '4')", "given twice"),
    ],
)
def test_bad_statements(text: str, fact: str) -> None:
    with pytest.raises(StatementError) as caught:
        parse_statement(text)
    assert fact in caught.value.message
    assert "\x1b" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("CREATE TABLE t (id INT)", "no primary key"),
        ("CREATE TABLE t (id INT, b INT, PRIMARY KEY (id, b)) TBLPROPERTIES ('distribution' = 'b')", "not a prefix"),
        ("CREATE TABLE t (id INT PRIMARY KEY) TBLPROPERTIES ('distribution' = '')", "names column ''"),
        ("CREATE TABLE t (id VARCHAR(3) PRIMARY KEY)", "VARCHAR"),
    ],
)
def test_bad_schemas(text: str, fact: str) -> None:
    with pytest.raises(SchemaError) as caught:
        parse_statement(text)
    assert fact in caught.value.message


def test_a_statement_is_text() -> None:
    with pytest.raises(StatementError, match="a statement is text"):
        parse_statement(None)  # type: ignore[arg-type]


def test_table_names_follow_the_rules_of_names() -> None:
    with pytest.raises(InvalidName, match="_vk_"):
        parse_statement("CREATE TABLE _vk_t (id INT PRIMARY KEY)")
    with pytest.raises(InvalidName, match="table name 'a b'"):
        parse_statement("DROP TABLE `a b`")
