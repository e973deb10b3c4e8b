"""`tonne history`: orders of a former provider."""

import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.command import Operator
from tests.support.world import World
from tonne.platform.db.database import Database

HEADER = "date,external_id,quantity,amount,currency,provider,link\n"
GOOD = (
    "2024-05-01,A-1,12.5,187.50,EUR,Former,https://former.example.org/1\n"
    "2024-06-12,A-2,0.750001,,,Former,\n"
    "2023-01-02,A-1,1,1000,JPY,Another,\n"
)


@pytest.fixture
def account_id(world: World) -> str:
    return world.ours_test.scope.account_id


def written(folder: Path, rows: str, header: str = HEADER) -> str:
    file = folder / "history.csv"
    file.write_text(header + rows, encoding="utf-8")
    return str(file)


async def stored(db: Database) -> list[dict[str, Any]]:
    async with db.connection() as connection:
        return [dict(row) for row in await connection.fetch("SELECT * FROM history_orders ORDER BY ordered_on")]


async def audited(db: Database) -> list[tuple[str, str]]:
    async with db.connection() as connection:
        found = await connection.fetch(
            "SELECT action, subject_id FROM audit_log WHERE action LIKE 'history.%' ORDER BY id"
        )
    return [(row["action"], row["subject_id"]) for row in found]


async def test_an_import_is_listed_and_undone(
    operator: Operator, populated_db: Database, account_id: str, tmp_path: Path
) -> None:
    words = ("history", "import", written(tmp_path, GOOD), "--account", account_id)
    assert "3 order(s) would be imported. Nothing was changed" in operator.does(*words, "--dry-run")
    assert (await stored(populated_db), await audited(populated_db)) == ([], [])
    import_id = operator.does(*words).rpartition(" ")[2].strip()
    rows = await stored(populated_db)
    assert [(row["provider"], row["external_id"], row["quantity_grams"]) for row in rows] == [
        ("Another", "A-1", 1_000_000),
        ("Former", "A-1", 12_500_000),
        ("Former", "A-2", 750_001),
    ]
    assert [(row["amount_minor"], row["currency"]) for row in rows] == [(1000, "JPY"), (18_750, "EUR"), (None, None)]
    listed = operator.does("history", "list", "--csv")
    assert import_id in listed
    assert re.search(r"3,2023-01-02,2024-06-12,\"Another, Former\"", listed), listed
    assert operator.does("history", "undo", import_id).startswith("3 order(s) of Another, Former removed.")
    assert await stored(populated_db) == []
    assert await audited(populated_db) == [("history.imported", account_id), ("history.undone", account_id)]
    assert "There is no such import." in operator.is_refused("history", "undo", import_id)


async def test_every_refused_row_is_reported_and_the_others_are_imported(
    operator: Operator, populated_db: Database, account_id: str, tmp_path: Path
) -> None:
    operator.does("history", "import", written(tmp_path, GOOD), "--account", account_id)
    bad = (
        "2024-05-01,A-1,12.5,,,Former,\n"
        "2024-05-01,B-1,1,,,Former,http://former.example.org/1\n"
        "2024-05-01,B-2,1,5.00,,Former,\n"
        "2024-05-01,B-3,1,5.001,EUR,Former,\n"
        "2999-05-01,B-4,0,,,Former,javascript:alert(1)\n"
        "2024-05-01,B-5,1,,,Former,\n"
        "2024-05-01,B-5,2,,,Former,\n"
    )
    done = operator.runs("history", "import", written(tmp_path, bad), "--account", account_id)
    assert (done.returncode, "Imported 1 order(s)." in done.stdout) == (1, True), done
    places = re.findall(r"history\.csv, line (\d+), column (\w+): (.*)", done.stderr)
    assert [(line, column) for line, column, _ in places] == [
        *[("2", "external_id"), ("3", "link"), ("4", "currency"), ("5", "amount")],
        *[("6", "quantity"), ("6", "link"), ("6", "date"), ("8", "external_id")],
    ]
    assert all(": " in message for _, _, message in places), "what to do follows what is wrong"
    assert "Error: 6 row(s) refused" in done.stderr
    assert len(await stored(populated_db)) == 4


async def test_a_file_that_cannot_be_read_imports_nothing(
    operator: Operator, populated_db: Database, account_id: str, tmp_path: Path
) -> None:
    for rows, header in ((GOOD, "date,external_id,quantity,provider,lnk\n"), (GOOD + '2024-01-01,"B', HEADER)):
        done = operator.runs("history", "import", written(tmp_path, rows, header), "--account", account_id)
        assert (done.returncode, "Nothing was imported" in done.stderr) == (1, True), done
    assert await stored(populated_db) == []


async def test_accounts_do_not_share_a_history(
    operator: Operator, populated_db: Database, world: World, tmp_path: Path
) -> None:
    for owner in (world.ours_test, world.ours_live, world.theirs_test):
        operator.does("history", "import", written(tmp_path, GOOD), "--account", owner.scope.account_id)
    assert len(await stored(populated_db)) == 9
    imports = operator.does("history", "list", "--json").splitlines()
    assert len(imports) == 3
