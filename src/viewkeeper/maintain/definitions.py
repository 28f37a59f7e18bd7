"""A view's definition as it is kept, and the plan that follows from it.

The types that Spark gave when the view was made are kept with it, so that a plan can be made again without Spark: for
`explain`, and in another process. What readers ask for is kept beside them (`Summary`): a plan is made by parsing the
query, and importing the parser takes longer than a thousand reads.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from viewkeeper.errors import NotMaintainable, SchemaError, StatementError
from viewkeeper.maintain.plan import Shape, Typer, ViewPlan, Wishes, plan_full, plan_incremental
from viewkeeper.names import RESERVED_PREFIX
from viewkeeper.sql.algebra import Block, NotIncremental
from viewkeeper.sql.refresh import Policy

PREFIX = "view/"
"""Definitions are records under this name."""


@dataclass(frozen=True)
class Summary:
    """What a plan says about its view to those who only read it. It holds as long as the definition does."""

    columns: tuple[str, ...]
    counted: bool
    strategy: str
    reason: str
    tables: tuple[str, ...]

    @classmethod
    def of(cls, plan: ViewPlan) -> Summary:
        return cls(plan.shape.columns, plan.shape.counted, plan.strategy.value, plan.reason, plan.tables)

    @classmethod
    def of_fields(cls, columns: Sequence[str], tables: Sequence[str], **others: Any) -> Summary:
        return cls(columns=tuple(columns), tables=tuple(tables), **others)


@dataclass(frozen=True)
class Definition:
    """What the user said, in which epoch the view was made, and Spark's types for it."""

    name: str
    query: str
    group: str
    policy: str
    cluster: tuple[str, ...] = ()
    regions: int = 4
    number: int = 0
    epoch: int = 0
    types: Mapping[str, str] = field(default_factory=dict)
    summary: Summary | None = None

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def of_text(cls, text: str) -> Definition:
        stored = json.loads(text)
        return cls(**{**stored, "cluster": tuple(stored["cluster"]), "summary": Summary.of_fields(**stored["summary"])})

    @property
    def wishes(self) -> Wishes:
        return Wishes(self.name, self.group, self.cluster, self.regions)


Rehearse = Callable[[str, str, Mapping[str, pa.Schema]], bool]
"""Whether two queries over tables of these types have the same answer: see `engine.rehearsal`."""


@dataclass
class RecordedTypes:
    """A typer that remembers: asks Spark once, and later answers by itself.

    What is asked is the text and the types of what it reads: two blocks of a view may have one text over other types. That
    Spark refused is an answer too: a plan that was made because of it must be made again without Spark.
    """

    known: dict[str, str]
    ask: Typer | None = None
    rehearse: Rehearse | None = None

    def agree(self, query: str, other: str, tables: Mapping[str, pa.Schema]) -> bool:
        """Whether two queries are one, as far as a trial can tell. That there was none means that none was needed then."""
        question = f"= {hashlib.sha256(_question(f'{query} = {other}', tables).encode()).hexdigest()}"
        if question not in self.known and self.rehearse is not None:
            self.known[question] = _YES if self.rehearse(query, other, tables) else _NO
        return self.known.get(question, _YES) == _YES

    def __call__(self, sql: str, tables: Mapping[str, pa.Schema]) -> pa.Schema:
        question = _question(sql, tables)
        if question not in self.known:
            if self.ask is None:
                raise LookupError(f"no recorded types for {sql}")
            try:
                self.known[question] = base64.b64encode(self.ask(sql, tables).serialize().to_pybytes()).decode()
            except (StatementError, SchemaError) as refused:
                self.known[question] = _REFUSED + refused.message
                raise
        answer = self.known[question]
        if answer.startswith(_REFUSED):
            raise StatementError(answer.removeprefix(_REFUSED))
        return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(answer)))


_YES, _NO = "yes", "no"

_REFUSED = "!"
"""Begins the answer to what Spark could not type, and what it said follows. Base64 has no such sign."""


def _question(sql: str, tables: Mapping[str, pa.Schema]) -> str:
    types = hashlib.sha256()
    for name, schema in sorted(tables.items()):
        types.update(f"{name}: {[(field.name, str(field.type)) for field in schema]}\n".encode())
    return f"{sql} -- {types.hexdigest()[:16]}"


def plan_view(definition: Definition, shapes: Mapping[str, Shape], typer: RecordedTypes) -> ViewPlan:
    """The plan of a view over tables and views of the given shapes. Policy INCREMENTAL refuses what it cannot have."""
    from viewkeeper.sql.queries import compile_query, tables_of  # sqlglot, which a reader of tables does not wait for

    inputs = {name: shapes[name] for name in tables_of(definition.query, _columns(shapes))}
    schema = typer(definition.query, {name: shape.schema for name, shape in inputs.items()})
    _check_columns(definition.name, schema.names)
    _refuse_unrepeatable(definition, inputs, typer)
    reason = "policy FULL"
    if definition.policy != Policy.FULL.value:
        try:
            blocks = compile_query(definition.name, definition.query, schema.names, _columns(inputs))
            plan = plan_incremental(definition.wishes, definition.query, blocks, schema, inputs, typer)
            _refuse_misunderstood(definition.query, [block.block for block in plan.blocks], inputs, typer)
            return plan
        except NotIncremental as found:
            reason = f"{found.construct} {found.reason}"
            if definition.policy == Policy.INCREMENTAL.value:
                raise NotMaintainable(
                    f'view "{definition.name}" cannot be maintained incrementally: {reason}',
                    hint="rewrite the query without it, or create the view with POLICY AUTO to re-evaluate it instead",
                    construct=found.construct,
                ) from None
    return plan_full(definition.wishes, definition.query, schema, list(inputs), reason)


def _refuse_misunderstood(
    query: str, blocks: Sequence[Block], inputs: Mapping[str, Shape], typer: RecordedTypes
) -> None:
    """`NotIncremental` if the blocks, read back as a query, are another one than the user's."""
    from viewkeeper.maintain.readback import as_query
    from viewkeeper.sql.plain import is_plain

    schemas = {name: shape.schema for name, shape in inputs.items()}
    if not is_plain(query) and not typer.agree(query, as_query(blocks), schemas):
        raise NotIncremental("the query", "has something that is read otherwise here than by Spark")


def _refuse_unrepeatable(definition: Definition, inputs: Mapping[str, Shape], typer: Typer) -> None:
    """What can only be seen with the tables' columns and types in hand; `refuse_unrepeatable` has seen the text."""
    from viewkeeper.sql.ties import with_ties_broken
    from viewkeeper.sql.unrepeatable import refuse_current_names, refuse_moments

    query = definition.query
    schemas = {name: shape.schema for name, shape in inputs.items()}

    def is_valid(text: str) -> bool:
        try:
            typer(text, schemas)
        except (StatementError, SchemaError):
            return False
        return True

    refuse_current_names(query, _columns(inputs))
    refuse_moments(query, is_valid)
    if not is_valid(with_ties_broken(query)):
        raise NotMaintainable(
            f'view "{definition.name}" could not choose between rows that tie: MIN_BY or MAX_BY of maps, which have no order',
            hint="take the row's key instead, and join with the table",
        )


def _check_columns(view: str, columns: Sequence[str]) -> None:
    """Spark lets two columns of a result have one name; nobody could ask a view for either of them."""
    lower = [column.lower() for column in columns]
    for column in columns:
        if lower.count(column.lower()) > 1:
            raise SchemaError(
                f'view "{view}" has two columns "{column}"', hint="name one of them anew: AS", column=column
            )
        if column.lower().startswith(RESERVED_PREFIX):
            raise SchemaError(
                f'view "{view}": column name "{column}" is reserved', hint="name it anew: AS", column=column
            )


def _columns(shapes: Mapping[str, Shape]) -> dict[str, list[str]]:
    return {name: list(shape.columns) for name, shape in shapes.items()}
