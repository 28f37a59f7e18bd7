"""Each layer knows only what is below it, and only one place touches Spark, another the database files.

The rules are functions from a module's source to sentences about what it breaks. They are tried on sources that break
them, so that a rule which stopped looking would be seen.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SRC = Path(__file__).parent.parent / "src"

LAYERS = ("store", "sql", "maintain", "engine", "service", "database", "bench", "cli")
"""From the bottom up."""

BELOW_ALL = {"errors", "names"}
"""Modules that every layer may import, and that import no layer."""

LAYER_OF_MODULE = {"": "database", "rows": "database", "demo": "cli", "__main__": "cli"}
"""The layer of a top-level module that is not named for its layer; the package's own `__init__` is the public face."""

BESIDE_THE_REAL_THING = {"testing", "bench"}
"""They run Spark and ADBC by themselves too: to compare what we do with what these do alone."""

JVM_HANDLES = {"_jvm", "_jdf", "_jsparkSession"}

FORGETS_JAVA = "viewkeeper.bench.revival"
"""It lets go of a Java process that has died, which PySpark has no public way for; it asks nothing of one that lives."""


@dataclass(frozen=True)
class Import:
    """One imported name. `lazy`: inside a function. `typing`: under `if TYPE_CHECKING`, so not at run time."""

    target: str
    line: int
    lazy: bool
    typing: bool

    @property
    def package(self) -> str:
        return self.target.partition(".")[0]


@dataclass(frozen=True)
class Module:
    name: str
    tree: ast.Module
    is_package: bool = False

    @property
    def layer(self) -> str:
        return layer_of(self.name)

    def imports(self) -> Iterator[Import]:
        yield from _imports(self.tree, self._base, lazy=False, typing=False)

    def _base(self, level: int) -> str:
        """The package that `level` dots mean here."""
        parts = self.name.split(".")
        return ".".join(parts[: len(parts) - level + self.is_package])


def layer_of(module: str) -> str:
    """The layer's name, "ground" for what lies below all of them, "testing", or "unknown".

    >>> layer_of("viewkeeper.store.contract"), layer_of("viewkeeper.names"), layer_of("viewkeeper")
    ('store', 'ground', 'database')
    """
    top = module.partition(".")[2].partition(".")[0]
    if top in BELOW_ALL:
        return "ground"
    if top in LAYERS or top == "testing":
        return top
    return LAYER_OF_MODULE.get(top, "unknown")


def _imports(node: ast.AST, base: Callable[[int], str], *, lazy: bool, typing: bool) -> Iterator[Import]:
    for target in _targets(node, base):
        yield Import(target, getattr(node, "lineno", 0), lazy, typing)
    lazy = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    only_typing = node.body if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test) else []
    for child in ast.iter_child_nodes(node):
        yield from _imports(child, base, lazy=lazy, typing=typing or child in only_typing)


def _targets(node: ast.AST, base: Callable[[int], str]) -> list[str]:
    """Dotted names: `from a import b` gives `a.b`, whether b is a module or not."""
    match node:
        case ast.Import(names=names):
            return [alias.name for alias in names]
        case ast.ImportFrom(module=module, names=names, level=level):
            parts = [base(level) if level else "", module or ""]
            package = ".".join(part for part in parts if part)
            return [f"{package}.{alias.name}" for alias in names]
        case ast.Call(
            func=ast.Name(id="import_module" | "__import__") | ast.Attribute(attr="import_module"),
            args=[ast.Constant(value=str(name)), *_],
        ):
            return [name]
        case _:
            return []


def looks_down(module: Module) -> Iterator[str]:
    """Each layer imports itself and what is below it; nothing but `testing` imports `testing`."""
    if module.layer == "unknown":
        yield f"{module.name} belongs to no layer: move it into one, or say here which one it is in"
    if module.layer in ("unknown", "testing"):
        return
    for found in module.imports():
        if found.package == "viewkeeper" and not _may_see(module.layer, _layer_of_target(found.target)):
            yield f"{module.name}:{found.line} ({module.layer}) imports {found.target}, which is not below it"


def _layer_of_target(target: str) -> str:
    """`viewkeeper.open` is a name of the public face and not a module."""
    layer = layer_of(target)
    return LAYER_OF_MODULE[""] if layer == "unknown" else layer


def _may_see(layer: str, other: str) -> bool:
    order = ("ground", *LAYERS)
    return other in order and order.index(other) <= order.index(layer)


def spark_stays_in_engine(module: Module) -> Iterator[str]:
    """Only `engine` imports PySpark, when a function needs it. The layers above may name its types, and no more."""
    if module.layer in BESIDE_THE_REAL_THING:
        return
    sees_dataframes = module.layer in LAYERS[LAYERS.index("engine") :]
    for found in module.imports():
        at_need = module.layer == "engine" and found.lazy
        if found.package in ("pyspark", "py4j") and not at_need and not (found.typing and sees_dataframes):
            yield f"{module.name}:{found.line} imports {found.target}: only engine does, inside a function"


def files_stay_in_store(module: Module) -> Iterator[str]:
    """Only `store` imports ADBC, and nobody `sqlite3`: two copies of SQLite in one process drop each other's locks."""
    for found in module.imports():
        if found.package == "sqlite3":
            yield f"{module.name}:{found.line} imports sqlite3 beside ADBC's own copy: files could be corrupted"
        if found.package.startswith("adbc_driver") and module.layer not in {"store", *BESIDE_THE_REAL_THING}:
            yield f"{module.name}:{found.line} imports {found.target}: only store does"


def no_jvm_handles(module: Module) -> Iterator[str]:
    """PySpark's private ways into the JVM exist on no Spark Connect session, and change without notice."""
    if module.name == FORGETS_JAVA:
        return
    for node in ast.walk(module.tree):
        name = node.attr if isinstance(node, ast.Attribute) else node.value if isinstance(node, ast.Constant) else None
        if isinstance(name, str) and name in JVM_HANDLES:
            yield f"{module.name}:{getattr(node, 'lineno', 0)} uses {name}"


RULES = (looks_down, spark_stays_in_engine, files_stay_in_store, no_jvm_handles)


def _modules() -> list[Module]:
    return [_module(path) for path in sorted(SRC.rglob("*.py"))]


def _module(path: Path) -> Module:
    parts = path.relative_to(SRC).with_suffix("").parts
    is_package = parts[-1] == "__init__"
    name = ".".join(parts[:-1] if is_package else parts)
    return Module(name, ast.parse(path.read_text(encoding="utf-8"), str(path)), is_package)


@pytest.mark.parametrize("rule", RULES)
def test_every_module_keeps(rule: Callable[[Module], Iterator[str]]) -> None:
    modules = _modules()
    assert {"viewkeeper", "viewkeeper.errors", "viewkeeper.store.contract"} <= {module.name for module in modules}
    assert [broken for module in modules for broken in rule(module)] == []


@pytest.mark.parametrize(
    ("rule", "name", "source"),
    [
        (looks_down, "viewkeeper.store.regions", "import viewkeeper.sql.parse"),
        (looks_down, "viewkeeper.store.regions", "from viewkeeper import engine"),
        (looks_down, "viewkeeper.store.regions", "from viewkeeper import open"),
        (looks_down, "viewkeeper.store.regions", "from ..sql import parse"),
        (looks_down, "viewkeeper.store.regions", "if TYPE_CHECKING:\n    from .. import sql"),
        (looks_down, "viewkeeper.maintain.plan", "importlib.import_module('viewkeeper.cli')"),
        (looks_down, "viewkeeper.errors", "from viewkeeper.store import contract"),
        (looks_down, "viewkeeper.database", "from viewkeeper.demo import main"),
        (looks_down, "viewkeeper.cli", "from viewkeeper.testing import contract"),
        (looks_down, "viewkeeper.engine.epoch", "from viewkeeper.bench import phases"),
        (looks_down, "viewkeeper.helpers", ""),
        (spark_stays_in_engine, "viewkeeper.store.regions", "def f():\n    import pyspark"),
        (spark_stays_in_engine, "viewkeeper.sql.parse", "if TYPE_CHECKING:\n    from pyspark.sql import DataFrame"),
        (spark_stays_in_engine, "viewkeeper.engine.epoch", "from pyspark.sql import functions"),
        (spark_stays_in_engine, "viewkeeper.engine.epoch", "if not TYPED:\n    import pyspark"),
        (spark_stays_in_engine, "viewkeeper.database", "def f():\n    import pyspark"),
        (files_stay_in_store, "viewkeeper.engine.tasks", "def f():\n    import adbc_driver_sqlite.dbapi"),
        (files_stay_in_store, "viewkeeper.store.embedded.log", "import sqlite3"),
        (files_stay_in_store, "viewkeeper.testing.contract", "from sqlite3 import connect"),
        (no_jvm_handles, "viewkeeper.engine.tasks", "session._jvm.System"),
        (no_jvm_handles, "viewkeeper.engine.tasks", "getattr(frame, '_jdf')"),
    ],
)
def test_a_rule_sees_what_breaks_it(rule: Callable[[Module], Iterator[str]], name: str, source: str) -> None:
    assert len(list(rule(Module(name, ast.parse(source))))) == 1


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("viewkeeper.store.regions", "from viewkeeper import names\nfrom . import contract\nimport adbc_driver_sqlite"),
        ("viewkeeper.database", "from viewkeeper.engine import epoch\nif TYPE_CHECKING:\n    import pyspark"),
        ("viewkeeper.engine.epoch", "def f():\n    from pyspark.sql import functions"),
        ("viewkeeper.demo", "import viewkeeper as vk\nfrom viewkeeper.database import Database"),
        ("viewkeeper.testing.memory_store", "from viewkeeper.engine import epoch\nimport pyspark"),
        (
            "viewkeeper.bench.raw",
            "from viewkeeper.engine import epoch\nimport adbc_driver_sqlite.dbapi\nimport pyspark",
        ),
    ],
)
def test_the_rules_allow_what_is_meant(name: str, source: str) -> None:
    assert [broken for rule in RULES for broken in rule(Module(name, ast.parse(source)))] == []


def test_dots_count_from_the_package() -> None:
    tree = ast.parse("from . import contract\nfrom ..sql import parse")
    in_package = Module("viewkeeper.store", tree, is_package=True)
    in_module = Module("viewkeeper.store.regions", tree)
    for module in (in_package, in_module):
        assert [found.target for found in module.imports()] == ["viewkeeper.store.contract", "viewkeeper.sql.parse"]


WITHOUT_SPARK = """
import sys
import viewkeeper as vk
db = vk.open(sys.argv[1])
db.execute("CREATE TABLE t (id BIGINT PRIMARY KEY, v STRING)")
db.table("t").put({"id": 1, "v": "a"})
assert db.table("t").get(1) == {"id": 1, "v": "a"}
assert db.table("t").scan().num_rows == 1
assert "pyspark" not in sys.modules, "pyspark was imported"
"""


def test_rows_are_written_and_read_without_spark(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(SRC)}
    command = [sys.executable, "-c", WITHOUT_SPARK, str(tmp_path / "shop.vk")]
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
