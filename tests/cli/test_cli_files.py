"""import and export: every format both ways, and wrong rows by their place."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from commands import Shell, on_terminal
from pyarrow import parquet

import viewkeeper as vk
from viewkeeper.cli import sources
from viewkeeper.cli.loading import Loaded, Wanted, load
from viewkeeper.cli.sources import files_of
from viewkeeper.errors import InputError, RowError

GOOD = 'id,product,price\n1,book,9.90\n2,"a ""pen""\nin two lines",\n3,"",1.20\n'
ROWS = [
    {"id": 1, "product": "book", "price": Decimal("9.90")},
    {"id": 2, "product": 'a "pen"\nin two lines', "price": None},
    {"id": 3, "product": "", "price": Decimal("1.20")},
]


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    found = Shell(tmp_path, tmp_path / "shop.vk")
    with vk.open(found.db, durability="off") as db:
        db.execute("CREATE TABLE sales (id BIGINT PRIMARY KEY, product STRING, price DECIMAL(10,2))")
    return found


@pytest.fixture
def sales(shell: Shell) -> vk.Table:
    return vk.open(shell.db, durability="off").table("sales")


Write = Callable[[str, str], Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def write(name: str, text: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return path

    return write


def imported(table: vk.Table, *files: Path, skip_bad: Path | None = None, delimiter: str | None = None) -> Loaded:
    return load(table, Wanted(files, None, delimiter), lambda file, read: None, skip_bad)


def refusal(table: vk.Table, *files: Path) -> str:
    """What an import says that wrote nothing."""
    before = table.scan()
    with pytest.raises(RowError, match=r"nothing was written$|nothing was written\n  hint: ") as found:
        imported(table, *files)
    assert table.scan().equals(before)
    return found.value.message.removesuffix(": nothing was written")


# As a user does


def test_there_and_back_in_every_format(shell: Shell, write: Write) -> None:
    write("sales.csv", GOOD)
    assert shell.ok("import", "sales", "sales.csv").err == "imported 3 rows into sales\n"
    for name in ("out.csv", "out.jsonl", "out.parquet"):
        assert shell.ok("export", "sales", name).err == f"exported 3 rows into {name}\n"
    assert f'"{Path("out.csv")}" is there already' in shell.fails("export", "sales", "out.csv")
    shell.ok("export", "sales", "out.csv", "--force")
    assert "has no ending" in shell.fails("export", "sales", "out.xls")
    for name in ("out.csv", "out.jsonl", "out.parquet"):
        with vk.open(shell.db, durability="off") as db:
            db.table("sales").delete([1, 2, 3])
        shell.ok("import", "sales", name)
        with vk.open(shell.db, durability="off") as db:
            assert db.table("sales").scan().to_pylist() == ROWS, name
    assert sorted(path.name for path in shell.folder.glob("*out*")) == ["out.csv", "out.jsonl", "out.parquet"]


def test_a_wrong_line_is_named_and_nothing_is_written(shell: Shell, write: Write) -> None:
    write("part/1.csv", GOOD)
    write("part/2.csv", "id,product,price\n4,x,1\n5,y,1.234\n6,z,dear\n")
    assert shell.fails("import", "sales", "part") == (
        "error: part/2.csv, line 3: column \"price\" (DECIMAL(10,2)) cannot hold '1.234': more than 2 digits after the point: "
        "nothing was written\n  hint: round it yourself; to set such rows aside and write the others: --skip-bad FILE\n"
    )
    done = shell.ok("import", "sales", "part/*.csv", "--skip-bad", "bad.jsonl")
    assert done.err == "imported 4 rows into sales\nset 2 rows aside in bad.jsonl\n"
    bad = [json.loads(line) for line in (shell.folder / "bad.jsonl").read_text().splitlines()]
    assert [(one["file"], one["line"], one["row"]["price"]) for one in bad] == [
        ("part/2.csv", 3, "1.234"), ("part/2.csv", 4, "dear"),
    ]  # fmt: skip
    assert "cannot hold 'dear'" in bad[1]["error"]
    assert [row["id"] for row in shell.ok("scan", "sales", "-f", "json").rows] == [1, 2, 3, 4]


def test_a_bar_shows_how_far_it_is(shell: Shell, write: Write) -> None:
    lines = "".join(f"{number},{'x' * 90},1.00\n" for number in range(60_000))
    write("many.csv", f"id,product,price\n{lines}")
    with on_terminal(shell, "import", "sales", "many.csv") as terminal:
        assert terminal.end() == 0, terminal.text
    assert "importing many.csv" in terminal.text
    assert "MB" in terminal.text
    assert "imported 60,000 rows into sales" in terminal.text


# Wrong rows


def test_places_in_csv_are_lines_also_where_rows_have_several_or_none(sales: vk.Table, write: Write) -> None:
    text = 'id,product,price\n1,"a\n\nb",1\n\n2,c,1\n3\n\n4,d,1,1\n5,"e\nf",x\n'
    assert refusal(sales, write("x.csv", text)).startswith('{}, line 10: column "price"'.format(write("x.csv", text)))
    aside = write("aside.jsonl", "")
    assert imported(sales, write("x.csv", text), skip_bad=aside) == Loaded(2, 3)
    bad = [json.loads(line) for line in aside.read_text().splitlines()]
    assert sorted((one["line"], one["error"]) for one in bad) == [
        (7, "it has 1 fields, and the header has 3"),
        (9, "it has 4 fields, and the header has 3"),
        (10, "column \"price\" (DECIMAL(10,2)) cannot hold 'x'"),
    ]
    assert [one["row"] for one in bad if one["line"] == 9] == ["4,d,1,1"]


def test_places_are_right_beyond_the_first_batch(
    sales: vk.Table, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources, "BATCH", 7)
    monkeypatch.setattr(sources, "BLOCK", 200)
    rows = [f"{number},p,{'no' if number == 93 else '1'}" for number in range(100)]
    rows.insert(50, "too,few")
    rows.insert(20, "")
    file = write("x.csv", "\n".join(["id,product,price", *rows, ""]))
    assert refusal(sales, file).startswith(f'{file}, line 97: column "price"')
    texts = [json.dumps({"id": number, "product": "p", "price": "no" if number == 93 else 1}) for number in range(100)]
    file = write("x.jsonl", "\n".join(["", *texts]))
    assert refusal(sales, file).startswith(f'{file}, line 95: column "price"')


def test_json_lines_say_what_is_no_row(sales: vk.Table, write: Write) -> None:
    file = write("x.jsonl", '{"id": 1, "product": "a", "price": 0.10}\n[2]\n{"id": 3}\n{"id"\n')
    assert refusal(sales, file) == f"{file}, line 2: it is not a row of JSON: it is not an object"
    aside = write("aside.jsonl", "")
    assert imported(sales, file, skip_bad=aside) == Loaded(1, 3)
    assert sales.get(1) == {"id": 1, "product": "a", "price": Decimal("0.10")}
    bad = {one["line"]: one["error"] for one in map(json.loads, aside.read_text().splitlines())}
    assert set(bad) == {2, 3, 4}
    assert bad[3] == 'column "product" is missing'


def test_parquet_rows_are_counted(sales: vk.Table, tmp_path: Path) -> None:
    file = tmp_path / "x.parquet"
    prices = pa.array([None, Decimal("1.5"), Decimal("1.234")])
    parquet.write_table(pa.table({"id": [1, 2, 3], "product": ["a", None, "c"], "price": prices}), file)
    assert refusal(sales, file).startswith(f'{file}, row 3: column "price"')


def test_a_key_that_comes_twice_names_both_places(sales: vk.Table, write: Write) -> None:
    one = write("1.csv", "id,product,price\n1,a,1\n2,b,1\n")
    two = write("2.csv", "id,product,price\n3,c,1\n1,d,1\n")
    assert refusal(sales, one, two) == f"{two}, line 3: key (id = 1) is in {one}, line 2 too"
    within = write("3.csv", "id,product,price\n1,a,1\n1,b,1\n")
    assert refusal(sales, within) == f"{within}, line 3: key (id = 1) is in {within}, line 2 too"
    aside = write("aside.jsonl", "")
    assert imported(sales, one, two, within, skip_bad=aside) == Loaded(3, 3)
    assert sales.scan(columns=["product"])["product"].to_pylist() == ["a", "b", "c"]
    assert aside.read_text().count("its key was there before") == 3


def test_a_wrong_header_is_nobodys_row(sales: vk.Table, write: Write) -> None:
    file = write("x.csv", "id,produkt,price\n1,a,1\n")
    assert refusal(sales, file) == f'{file}: column "produkt" does not exist'
    aside = write("aside.jsonl", "")
    with pytest.raises(RowError, match="produkt"):
        imported(sales, file, skip_bad=aside)
    assert aside.read_text() == ""


def test_empty_files_unreadable_files_and_other_signs(sales: vk.Table, write: Write, tmp_path: Path) -> None:
    assert imported(sales, write("x.csv", "id,product,price\n"), write("x.jsonl", "\n")) == Loaded(0, 0)
    with pytest.raises(InputError, match="cannot be read: Empty CSV file"):
        imported(sales, write("x.csv", ""))
    with pytest.raises(InputError, match="cannot be read"):
        imported(sales, write("x.parquet", "this is none"))
    assert imported(sales, write("x.tsv", "id\tproduct\tprice\n1\ta\t1\n")) == Loaded(1, 0)
    assert imported(sales, write("x.csv", "id;product;price\n2;a;1\n"), delimiter=";") == Loaded(1, 0)
    packed = tmp_path / "x.csv.gz"
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbfid,product,price\n3,a,x\n"))
    assert refusal(sales, packed).startswith(f'{packed}, line 2: column "price"')
    packed.write_bytes(gzip.compress(b"\xef\xbb\xbfid,product,price\n3,a,1\n"))
    assert imported(sales, packed) == Loaded(1, 0)


def test_what_is_meant_by_a_folder_and_a_pattern(write: Write, tmp_path: Path) -> None:
    for name in ("a/_SUCCESS", "a/.hidden.csv", "a/notes.txt", "a/2.csv", "a/1.parquet"):
        write(name, "")
    assert [path.name for path in files_of([str(tmp_path / "a"), str(tmp_path / "a/*.csv")], None)] == [
        "1.parquet", "2.csv",
    ]  # fmt: skip
    with pytest.raises(InputError, match="is not there"):
        files_of([str(tmp_path / "b*")], None)
    with pytest.raises(InputError, match="has no ending that says what it is"):
        files_of([str(tmp_path / "a/notes.txt")], None)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="there is no file of rows"):
        files_of([str(tmp_path / "empty")], None)
