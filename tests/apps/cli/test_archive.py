"""tonne archive"""

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.apps.privacy.retention.months import Months, month_start
from tests.support.command import output_of, refusal_of, tonne
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.settings.settings import Settings


@pytest.fixture
async def months(services: Services, world: World, settings: Settings) -> Months:
    """An event of five months ago, and one of now."""
    months = Months(services, world.ours_test, settings)
    await months.open()
    await months.append(month_start(5) + timedelta(days=1))
    await months.append(datetime.now(UTC))
    return months


def of(months: Months, folder: Path) -> dict[str, str]:
    return {"database_url": months.database._url, "events_days": "60", "archive_dir": str(folder)}


def test_partitions_are_listed_archived_removed_and_verified(months: Months, tmp_path: Path) -> None:
    settings = of(months, tmp_path / "archive")
    before = [json.loads(line) for line in output_of("archive", "list", "--json", **settings).splitlines()]
    due = [row["partition"] for row in before if row["state"] == "due"]
    assert len(due) in {4, 5}
    assert {row["table"] for row in before} == {"events", "webhook_attempts", "mails", "tax_document_files"}
    assert output_of("archive", "verify", **settings) == "There is no archive yet."

    lines = output_of("archive", "run", **settings).splitlines()
    assert [line.partition(":")[0].removeprefix("Removed ") for line in lines] == due
    assert sum("1 rows, archived in" in line for line in lines) == 1
    assert output_of("archive", "run", **settings).startswith("No partition is due.")
    after = [json.loads(line) for line in output_of("archive", "list", "--json", **settings).splitlines()]
    removed = [row for row in after if row["state"] == "removed"]
    assert [row["partition"] for row in removed] == due
    assert all((tmp_path / "archive" / row["file_name"]).exists() for row in removed)
    assert output_of("archive", "verify", **settings) == f"{len(due)} archives are complete."
    moved = (tmp_path / "archive").rename(tmp_path / "moved")
    assert output_of("archive", "verify", str(moved), **settings) == f"{len(due)} archives are complete."


def test_a_damaged_archive_is_named(months: Months, tmp_path: Path) -> None:
    settings = of(months, tmp_path)
    output_of("archive", "run", **settings)
    path = next(tmp_path.glob("*.gz"))
    path.write_bytes(path.read_bytes().replace(b"\x1f\x8b", b"\x1f\x8c", 1))
    done = tonne("archive", "verify", **settings)
    assert done.returncode == 1
    assert str(path) in done.stderr
    assert "1 of " in done.stderr
    assert "archives are missing or damaged" in done.stderr


async def test_what_prevents_a_removal_is_said(months: Months, tmp_path: Path) -> None:
    hook = await months.register()
    done = tonne("archive", "run", **of(months, tmp_path))
    assert done.returncode == 1
    assert f"webhook {hook.id} has not got all its events" in done.stderr
    assert await months.positions() == [1, 2]


def test_a_folder_that_cannot_be_written_is_one_sentence(months: Months, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    message = refusal_of("archive", "run", **of(months, tmp_path / "file" / "archive"))
    assert "TONNE_ARCHIVE_DIR" in message
    assert message.endswith("No row was removed.")
