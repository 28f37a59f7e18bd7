"""CREATE and DROP MATERIALIZED VIEW: clauses in any order, the query as it was written, and errors that say where."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from viewkeeper.errors import InputError, InvalidName, StatementError
from viewkeeper.sql.refresh import (
    LONGEST,
    Every,
    Immediate,
    OnDemand,
    Policy,
    Refresh,
    parse_policy,
    parse_refresh,
)
from viewkeeper.sql.statements import EXISTING, CreateView, DropView, parse_statement

QUERY = "SELECT product, sum(cost) AS total FROM sales GROUP BY product"


def _view(text: str) -> CreateView:
    statement = parse_statement(text)
    assert isinstance(statement, CreateView)
    return statement


def _refused(text: str) -> StatementError:
    with pytest.raises(StatementError) as caught:
        parse_statement(text)
    return caught.value


# What is understood


def test_the_shortest_form_has_the_defaults() -> None:
    assert _view(f"CREATE MATERIALIZED VIEW totals AS {QUERY}") == CreateView(
        name="totals", query=QUERY, cluster=(), refresh=OnDemand(), policy=Policy.AUTO, if_not_exists=False
    )


def test_the_longest_form() -> None:
    text = f"""
        -- what each product brought in
        create materialized view if not exists `Totals`
            cluster by (Product, `the total`)
            refresh every 1.5 minutes
            policy incremental
        as {QUERY};
    """
    assert _view(text) == CreateView(
        "Totals", QUERY, ("Product", "the total"), Every(90.0), Policy.INCREMENTAL, if_not_exists=True
    )


def test_drop() -> None:
    assert parse_statement("DROP MATERIALIZED VIEW totals") == DropView("totals")
    assert parse_statement("; drop materialized /* it */ view if exists `Totals` ; ;") == DropView("Totals", True)


@pytest.mark.parametrize(
    ("clause", "refresh"),
    [
        ("REFRESH ON DEMAND", OnDemand()),
        ("refresh on -- when asked\n demand", OnDemand()),
        ("REFRESH IMMEDIATE", Immediate()),
        ("REFRESH EVERY 2 SECONDS", Every(2.0)),
        ("REFRESH EVERY 1 SECOND", Every(1.0)),
        ("REFRESH EVERY 5 MINUTES", Every(300.0)),
        ("REFRESH EVERY 1 MINUTE", Every(60.0)),
        ("REFRESH EVERY 0.25 SECONDS", Every(0.25)),
        ("REFRESH EVERY .5 Seconds", Every(0.5)),
        ("REFRESH EVERY 1e1 SECONDS", Every(10.0)),
        ("REFRESH EVERY 1e-3 SECONDS", Every(0.001)),
    ],
)
def test_refresh_clauses(clause: str, refresh: Refresh) -> None:
    assert _view(f"CREATE MATERIALIZED VIEW v {clause} AS SELECT 1").refresh == refresh


@pytest.mark.parametrize("policy", Policy)
def test_policies(policy: Policy) -> None:
    assert _view(f"CREATE MATERIALIZED VIEW v POLICY {policy.name} AS SELECT 1").policy is policy
    assert _view(f"CREATE MATERIALIZED VIEW v POLICY {policy.value} AS SELECT 1").policy is policy


def test_names_that_are_words_of_the_grammar() -> None:
    for name in ("refresh", "policy", "cluster", "auto", "every", "immediate", "if", "date", "materialized"):
        assert _view(f"CREATE MATERIALIZED VIEW {name} REFRESH IMMEDIATE AS SELECT 1").name == name
        assert _view(f"CREATE MATERIALIZED VIEW v CLUSTER BY ({name}) AS SELECT 1").cluster == (name,)
    assert _view("CREATE MATERIALIZED VIEW `as` AS SELECT 1").name == "as"
    assert _view("CREATE MATERIALIZED VIEW v CLUSTER BY (`)`, `a``b`) AS SELECT 1").cluster == (")", "a`b")


@dataclass(frozen=True)
class Clause:
    text: str
    field: str
    value: object


_CLAUSES = (
    st.sampled_from(
        [
            Clause("CLUSTER BY (a)", "cluster", ("a",)),
            Clause("CLUSTER BY (`as`, refresh, c)", "cluster", ("as", "refresh", "c")),
        ]
    ),
    st.sampled_from(
        [
            Clause("REFRESH ON DEMAND", "refresh", OnDemand()),
            Clause("REFRESH IMMEDIATE", "refresh", Immediate()),
            Clause("REFRESH EVERY 2.5 SECONDS", "refresh", Every(2.5)),
        ]
    ),
    st.sampled_from([Clause(f"POLICY {policy.name}", "policy", policy) for policy in Policy]),
)
_GAPS = st.sampled_from([" ", "\n", "\t ", " /* AS SELECT 2 */ ", " -- REFRESH AS\n"])


@given(data=st.data())
def test_clauses_come_in_any_order_case_and_spacing(data: st.DataObject) -> None:
    clauses = data.draw(st.permutations([data.draw(choices) for choices in _CLAUSES]))
    chosen = clauses[: data.draw(st.integers(0, len(clauses)))]
    parts = [word for clause in chosen for word in clause.text.split(" ")]
    words = [data.draw(st.sampled_from([word, word.lower()])) for word in parts]
    text = data.draw(_GAPS).join(["CREATE MATERIALIZED VIEW", "v", *words, "AS", QUERY])
    wanted = {clause.field: clause.value for clause in chosen}
    assert _view(text) == CreateView("v", QUERY, **wanted)  # type: ignore[arg-type]  # a clause's field fits its value


@pytest.mark.parametrize("order", list(permutations(["CLUSTER BY (a)", "REFRESH IMMEDIATE", "POLICY FULL"])))
def test_no_clause_is_given_twice(order: tuple[str, ...]) -> None:
    error = _refused(f"CREATE MATERIALIZED VIEW v {' '.join(order)} {order[0]} AS SELECT 1")
    keyword = "CLUSTER BY" if order[0].startswith("CLUSTER") else order[0].split()[0]
    assert f"{keyword} is given twice" in error.message
    assert error.fields["column"] == len(f"CREATE MATERIALIZED VIEW v {' '.join(order)} ") + 1


# The query


@pytest.mark.parametrize(
    "query",
    [
        "SELECT 1",
        "select  a ,\n\tb   from `my table`",
        "WITH x AS (SELECT 1 AS a) SELECT * FROM x",
        "(SELECT 1 AS a) UNION ALL (SELECT 2 AS a)",
        "SELECT 'AS REFRESH EVERY 2 SECONDS; DROP TABLE t' AS `policy; full` FROM t",
        "SELECT \"a;b\" AS x, 'it\\'s' AS y FROM t",
        "SELECT refresh, policy AS cluster FROM every AS immediate CLUSTER BY refresh",
        "SELECT /*+ BROADCAST(t) */ a -- AS ;\n FROM t /* ; */ WHERE b = ';'",
        "SELECT '😀é' AS x FROM t",
        "SELECT a FROM t EXCEPT SELECT a FROM u",
        "SELECT a FROM t -- the end",
    ],
)
@pytest.mark.parametrize("end", ["", ";", " ;\n", "\n", "; -- done", " ;; "])
def test_the_query_is_kept_as_it_was_written(query: str, end: str) -> None:
    if query.endswith("the end"):
        end = "\n" + end
    assert _view(f"CREATE MATERIALIZED VIEW /* é😀 AS SELECT 2 */ v\nAS {query}{end}").query == query


@pytest.mark.parametrize(
    "query",
    [
        "INSERT INTO t VALUES (1)",
        "VALUES (1)",
        "DROP TABLE t",
        "SHOW TABLES",
        "CACHE TABLE t",
        "EXPLAIN SELECT 1",
        "WITH a AS (SELECT 1) INSERT INTO t SELECT * FROM a",
        "CREATE TABLE t AS SELECT 1",
        "1",
        "t",
        "(1 + 2)",
    ],
)
def test_what_is_no_query_is_refused(query: str, caplog: pytest.LogCaptureFixture) -> None:
    error = _refused(f"CREATE MATERIALIZED VIEW v\n  AS {query}")
    assert "expected a query" in error.message
    assert (error.fields["line"], error.fields["column"]) == (2, 6)
    assert query.startswith(error.fields["text"])
    assert not caplog.records


def test_an_error_in_the_query_is_where_it_is_in_the_whole_text() -> None:
    error = _refused("CREATE MATERIALIZED VIEW v\n  REFRESH IMMEDIATE AS SELECT a FROM t\n  WHERE a = 1 1")
    assert error.message == 'syntax error at line 3, column 15, near "1": unexpected token'
    error = _refused("CREATE MATERIALIZED VIEW v AS SELECT 1 SELECT 2")
    assert error.message == 'syntax error at line 1, column 40, near "SELECT": unexpected token'


# What is refused


@pytest.mark.parametrize(
    ("text", "column", "near", "fact"),
    [
        ("CREATE MATERIALIZED VIEW", 21, "VIEW", "expected the view's name, and the statement ends"),
        ("CREATE MATERIALIZED VIEW AS SELECT 1", 26, "AS", "expected the view's name"),
        ("CREATE MATERIALIZED VIEW 'v' AS SELECT 1", 26, "'v'", "expected the view's name"),
        ("CREATE MATERIALIZED VIEW select AS SELECT 1", 26, "select", "expected the view's name"),
        ("CREATE MATERIALIZED VIEW a.b AS SELECT 1", 26, "a.", "the name has more than one part"),
        ("CREATE MATERIALIZED VIEW v", 26, "v", "expected CLUSTER BY, REFRESH, POLICY or AS, and the statement ends"),
        ("CREATE MATERIALIZED VIEW v SELECT 1", 28, "SELECT", "expected CLUSTER BY, REFRESH, POLICY or AS"),
        ("CREATE MATERIALIZED VIEW v COMMENT 'x' AS SELECT 1", 28, "COMMENT", "expected CLUSTER BY"),
        ("CREATE MATERIALIZED VIEW v `REFRESH` IMMEDIATE AS SELECT 1", 28, "`REFRESH`", "expected CLUSTER BY"),
        ("CREATE MATERIALIZED VIEW v 'AS' SELECT 1", 28, "'AS'", "expected CLUSTER BY"),
        ("CREATE MATERIALIZED VIEW v REFRESH IMMEDIATE, POLICY FULL AS SELECT 1", 45, ",", "expected CLUSTER BY"),
        ("CREATE MATERIALIZED VIEW v (a, b) AS SELECT 1, 2", 28, "(", "a list of columns is not supported"),
        ("CREATE MATERIALIZED VIEW IF EXISTS v AS SELECT 1", 29, "EXISTS", "expected CLUSTER BY"),
        ("CREATE MATERIALIZED VIEW v AS", 28, "AS", "expected a query, and the statement ends"),
        ("CREATE MATERIALIZED VIEW v AS ; -- SELECT 1", 28, "AS", "expected a query, and the statement ends"),
        ("CREATE MATERIALIZED VIEW v CLUSTER BY a AS SELECT 1", 39, "a", "expected ("),
        ("CREATE MATERIALIZED VIEW v CLUSTER BY () AS SELECT 1", 40, ")", "expected a column's name"),
        ("CREATE MATERIALIZED VIEW v CLUSTER BY (a,) AS SELECT 1", 42, ")", "expected a column's name"),
        ("CREATE MATERIALIZED VIEW v CLUSTER BY (a b) AS SELECT 1", 42, "b", "expected , or )"),
        ("CREATE MATERIALIZED VIEW v CLUSTER BY (a.b) AS SELECT 1", 41, ".", "expected , or )"),
        ("CREATE MATERIALIZED VIEW v CLUSTER BY ('a') AS SELECT 1", 40, "'a'", "expected a column's name"),
        ("CREATE MATERIALIZED VIEW v CLUSTER BY (a", 40, "a", "expected , or ), and the statement ends"),
        ("CREATE MATERIALIZED VIEW v CLUSTER BY (a, b, `A`) AS SELECT 1", 46, "`A`", 'names column "A" twice'),
        ("CREATE MATERIALIZED VIEW v CLUSTER (a) AS SELECT 1", 28, "CLUSTER", "expected CLUSTER BY"),
        (
            "CREATE MATERIALIZED VIEW v REFRESH AS SELECT 1",
            36,
            "AS",
            "expected ON DEMAND, EVERY n SECONDS or IMMEDIATE",
        ),
        ("CREATE MATERIALIZED VIEW v REFRESH ON COMMIT AS SELECT 1", 36, "ON", "expected ON DEMAND"),
        ("CREATE MATERIALIZED VIEW v REFRESH NEVER AS SELECT 1", 36, "NEVER", "expected ON DEMAND"),
        ("CREATE MATERIALIZED VIEW v REFRESH EVERY SECOND AS SELECT 1", 42, "SECOND", "expected a number"),
        ("CREATE MATERIALIZED VIEW v REFRESH EVERY '2' SECONDS AS SELECT 1", 42, "'2'", "expected a number"),
        ("CREATE MATERIALIZED VIEW v REFRESH EVERY - SECONDS AS SELECT 1", 42, "-", "expected a number"),
        ("CREATE MATERIALIZED VIEW v REFRESH EVERY 2L SECONDS AS SELECT 1", 42, "2L", "expected SECONDS or MINUTES"),
        ("CREATE MATERIALIZED VIEW v REFRESH EVERY 2 HOURS AS SELECT 1", 44, "HOURS", "expected SECONDS or MINUTES"),
        ("CREATE MATERIALIZED VIEW v REFRESH EVERY 2 AS SELECT 1", 44, "AS", "expected SECONDS or MINUTES"),
        ("CREATE MATERIALIZED VIEW v REFRESH EVERY 0 SECONDS AS SELECT 1", 42, "0 SECONDS", "every 0 seconds"),
        ("CREATE MATERIALIZED VIEW v REFRESH EVERY 0.0 MINUTES AS SELECT 1", 42, "0.0 MINUTES", "every 0 seconds"),
        ("CREATE MATERIALIZED VIEW v REFRESH EVERY -2 SECONDS AS SELECT 1", 42, "-2 SECONDS", "every -2 seconds"),
        (
            "CREATE MATERIALIZED VIEW v REFRESH EVERY 1e400 SECONDS AS SELECT 1",
            42,
            "1e400 SECONDS",
            "every inf seconds",
        ),
        ("CREATE MATERIALIZED VIEW v POLICY AS SELECT 1", 35, "AS", "expected AUTO, INCREMENTAL or FULL"),
        ("CREATE MATERIALIZED VIEW v POLICY 'FULL' AS SELECT 1", 35, "'FULL'", "expected AUTO, INCREMENTAL or FULL"),
        ("DROP MATERIALIZED VIEW", 19, "VIEW", "expected the view's name, and the statement ends"),
        ("DROP MATERIALIZED VIEW IF EXISTS", 27, "EXISTS", "expected the view's name, and the statement ends"),
        ("DROP MATERIALIZED VIEW a, b", 25, ",", "expected the end of the statement"),
        ("DROP MATERIALIZED VIEW a CASCADE", 26, "CASCADE", "expected the end of the statement"),
        ("DROP MATERIALIZED VIEW a.b", 24, "a.", "the name has more than one part"),
    ],
)
def test_errors_say_where_and_what(text: str, column: int, near: str, fact: str) -> None:
    error = _refused(text)
    assert error.message.startswith(f'syntax error at line 1, column {column}, near "{near}": ')
    assert fact in error.message
    assert error.fields == {"line": 1, "column": column, "text": near}
    below = _refused(f"-- a view\n\n  {text}")
    assert below.fields == {"line": 3, "column": column + 2, "text": near}


@pytest.mark.parametrize(
    ("text", "fact"),
    [
        ("CREATE OR REPLACE MATERIALIZED VIEW v AS SELECT 1", "OR REPLACE is not supported"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 1; SELECT 2", "2 statements"),
        ("DROP MATERIALIZED VIEW a; DROP MATERIALIZED VIEW b; DROP TABLE c", "3 statements"),
        ("DROP TABLE a; DROP MATERIALIZED VIEW b", "2 statements"),
        ("CREATE MATERIALIZED VIEW v AS SELECT 'x", "not closed"),
        ("CREATE MATERIALIZED VIEW `v AS SELECT 1", "not closed"),
        ("CREATE MATERIALIZED VIEW v AS SELECT k FROM r -- all \\\n WHERE k > 1", "ends in a backslash"),
        ("CREATE MATERIALIZED TABLE v (id INT PRIMARY KEY)", "MATERIALIZED is not supported"),
        ("CREATE MATERIALIZED", "cannot be executed"),
        ("DROP MATERIALIZED", "cannot be executed"),
        ("CREATE VIEW v AS SELECT 1", "cannot be executed"),
    ],
)
def test_other_errors(text: str, fact: str) -> None:
    assert fact in _refused(text).message


def test_view_names_follow_the_rules_of_names() -> None:
    with pytest.raises(InvalidName, match="view name 'a b'"):
        parse_statement("CREATE MATERIALIZED VIEW `a b` AS SELECT 1")
    with pytest.raises(InvalidName, match='view name "_vk_v" is reserved'):
        parse_statement("DROP MATERIALIZED VIEW _vk_v")


def test_errors_about_other_statements_list_these() -> None:
    hint = _refused("SELECT 1").hint
    assert hint is not None
    assert all(form in hint for form in EXISTING)
    assert [form.split(" [")[0] for form in EXISTING[2:]] == ["CREATE MATERIALIZED VIEW", "DROP MATERIALIZED VIEW"]


# Refresh and policy as arguments


@pytest.mark.parametrize(
    ("text", "refresh"),
    [
        ("on demand", OnDemand()),
        ("  ON   Demand ", OnDemand()),
        ("immediate", Immediate()),
        ("every 2 seconds", Every(2.0)),
        ("every 1 second", Every(1.0)),
        ("Every 1.5 Minutes", Every(90.0)),
        ("every .5 seconds", Every(0.5)),
        ("every 1e-3 seconds", Every(0.001)),
    ],
)
def test_parse_refresh(text: str, refresh: Refresh) -> None:
    assert parse_refresh(text) == refresh


@pytest.mark.parametrize(
    ("refresh", "text"),
    [
        (OnDemand(), "on demand"),
        (Immediate(), "immediate"),
        (Every(2.0), "every 2 seconds"),
        (Every(2), "every 2 seconds"),
        (Every(1.0), "every 1 second"),
        (Every(0.25), "every 0.25 seconds"),
        (parse_refresh("every 2 minutes"), "every 120 seconds"),
    ],
)
def test_canonical_text(refresh: Refresh, text: str) -> None:
    assert str(refresh) == text


@given(st.floats(min_value=0, max_value=LONGEST, exclude_min=True))
def test_the_text_of_a_refresh_is_read_as_the_same(seconds: float) -> None:
    assert parse_refresh(str(Every(seconds))) == Every(seconds)
    assert _view(f"CREATE MATERIALIZED VIEW v REFRESH {Every(seconds)} AS SELECT 1").refresh == Every(seconds)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "on",
        "demand",
        "on  demand please",
        "always",
        "every",
        "every second",
        "every two seconds",
        "every 2",
        "every 2 hours",
        "every nan seconds",
        "every inf seconds",
        "every 1_0 seconds",
        "every ² seconds",
        None,
        2,
    ],
)
def test_other_refreshes_do_not_exist(text: object) -> None:
    with pytest.raises(InputError, match="does not exist") as caught:
        parse_refresh(text)  # type: ignore[arg-type]  # what a caller without types may give
    assert "every 2 seconds" in str(caught.value.hint)


@pytest.mark.parametrize("text", ["every 0 seconds", "every -1 seconds", "every 1e9 seconds", "every 1e400 minutes"])
def test_a_time_between_refreshes_is_positive_and_at_most_a_year(text: str) -> None:
    with pytest.raises(InputError, match="a view cannot be refreshed every"):
        parse_refresh(text)


def test_parse_policy() -> None:
    assert [parse_policy(text) for text in ("auto", "Incremental", " FULL ")] == list(Policy)
    for text in ("", "fast", None):
        with pytest.raises(InputError, match="does not exist") as caught:
            parse_policy(text)  # type: ignore[arg-type]  # what a caller without types may give
        assert '"incremental"' in str(caught.value.hint)
