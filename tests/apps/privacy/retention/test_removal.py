"""Old partitions are archived and removed; what is still needed stays."""

import asyncio
import gzip
import json
import os
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import msgspec
import pytest

from tests.apps.privacy.retention.months import Months, make_months, month_start
from tests.support.api_client import ApiClient, codes, fields
from tests.support.orders import place
from tests.support.world import World
from tonne.apps.cli.operations.doctor import find_waiting
from tonne.apps.privacy.retention import archive_file
from tonne.apps.privacy.retention.archive_file import ArchiveError, ArchiveWriter, check_contents, read_manifest
from tonne.apps.privacy.retention.check_archives import ARCHIVES
from tonne.apps.privacy.retention.removal_store import RemovedPartition
from tonne.apps.privacy.retention.remove_partitions import NotRemoved, RemovePartitions, remove_partition
from tonne.apps.wiring.app import Services
from tonne.platform.db.schema.partitions import ATTEMPTS, EVENTS, MAILS, list_partitions
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import Settings, SettingsError
from tonne.platform.values.context import job_actor, new_id, to_wire

LATE = "old rows are removed in time"
DAY = timedelta(days=1)


async def three_old_and_one_new(months: Months) -> list[datetime]:
    """Events of six, five and four months ago, and of now. They are at positions 1 to 4."""
    moments = [month_start(6) + DAY, month_start(5) + DAY, month_start(4) + DAY, datetime.now(UTC)]
    return [await months.append(moment) for moment in moments]


def lines_of(path: Path) -> list[dict[str, object]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


async def test_old_partitions_are_archived_and_removed(months: Months, settings: Settings, api: ApiClient) -> None:
    await three_old_and_one_new(months)
    delivered = (await api.get("/v1/events?order=asc")).json()["data"]
    outcomes = await months.remove()
    # The first partition, which is empty, and those of six, five, four and three months ago.
    assert [type(outcome) for outcome in outcomes] == [RemovedPartition] * len(outcomes)
    assert len(outcomes) in {4, 5}
    assert await months.positions() == [4]
    floor = await months.floor()
    assert floor["position"] == 3
    archived: list[dict[str, object]] = []
    for outcome in outcomes:
        assert isinstance(outcome, RemovedPartition)
        path = settings.archive_path / str(outcome.file_name)
        manifest = read_manifest(path)
        check_contents(path, manifest)
        assert (manifest.row_count, manifest.sha256) == (outcome.row_count, outcome.sha256)
        assert path.stat().st_mode & 0o077 == 0
        archived += lines_of(path)
    assert [line["position"] for line in archived] == [1, 2, 3]
    assert [line["event"] for line in archived] == delivered[:3]
    assert await months.remove() == []
    assert await months.breaches() == {}
    entries = await months.fetch("SELECT subject_id, actor FROM audit_log WHERE action = 'partition.removed'")
    assert {row["actor"] for row in entries} == {"system:remove_partitions"}
    assert {row["subject_id"] for row in entries} == {getattr(outcome, "name", "") for outcome in outcomes}


MULTIPLY_EVENTS = """
INSERT INTO events
SELECT (json_populate_record(event, json_build_object('position', event.position + number))).*
FROM events event CROSS JOIN generate_series(1, $1::int) AS number
"""


async def test_operations_2_retention_finishes_however_many_rows_and_however_short_the_limits(
    months: Months, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 2.3 million events a month, each run archived, was cancelled by a time limit, and started again."""
    await months.append(month_start(6) + DAY)
    rows = int(os.environ.get("RETENTION_ROWS", "5000"))
    await months.execute(MULTIPLY_EVENTS, rows)
    await months.execute("UPDATE event_streams SET last_position = $1 WHERE last_position > 0", rows + 1)
    read = archive_file._read

    def read_slowly(path: Path) -> object:
        time.sleep(0.5)
        return read(path)

    monkeypatch.setattr(archive_file, "_read", read_slowly)
    connection = await months.database.connect()
    blocker = await months.database.connect()
    try:
        # A hundredth of the defaults. The lock makes the first statement that reads all events take longer, too.
        await connection.execute("SET statement_timeout = '100ms'; SET idle_in_transaction_session_timeout = '200ms'")
        first, second, *_ = await list_partitions(connection, EVENTS)
        by = job_actor("test").at(datetime.now(UTC))
        await remove_partition(connection, months.settings, EVENTS, first, by=by)
        async with asyncio.TaskGroup() as tasks, blocker.transaction():
            await blocker.execute(f"LOCK TABLE {second.name} IN ACCESS EXCLUSIVE MODE")
            running = tasks.create_task(remove_partition(connection, months.settings, EVENTS, second, by=by))
            await asyncio.sleep(0.4)
        outcome = running.result()
    finally:
        await connection.close()
        await blocker.close()
    assert isinstance(outcome, RemovedPartition), outcome
    assert outcome.row_count == rows + 1


async def test_rows_that_change_while_they_are_archived_are_not_removed(
    months: Months, monkeypatch: pytest.MonkeyPatch
) -> None:
    await months.append(month_start(6) + DAY)
    verify = ArchiveWriter.verify
    loop = asyncio.get_running_loop()

    def verify_late(writer: ArchiveWriter) -> None:
        change = months.execute("UPDATE events SET subject_id = $1", new_id("x"))
        asyncio.run_coroutine_threadsafe(change, loop).result(60)
        verify(writer)

    monkeypatch.setattr(ArchiveWriter, "verify", verify_late)
    reasons = [outcome.reason for outcome in await months.remove() if isinstance(outcome, NotRemoved)]
    assert reasons == ["its rows changed while they were archived"]
    assert await months.positions() == [1]


async def test_nothing_is_removed_while_events_are_kept_for_ever(months: Months) -> None:
    await three_old_and_one_new(months)
    months.settings = msgspec.structs.replace(months.settings, events_days=0)
    assert await months.remove() == []
    assert await months.positions() == [1, 2, 3, 4]


async def test_undelivered_events_are_never_removed(months: Months) -> None:
    await three_old_and_one_new(months)
    hook = await months.register(at=1)
    outcomes = await months.remove()
    stuck = outcomes[-1]
    assert isinstance(stuck, NotRemoved)
    assert hook.id in stuck.reason
    assert await months.positions() == [2, 3, 4]
    assert (await months.floor())["position"] == 1
    # Disabled webhooks get their events later; deleted ones never.
    await months.execute("UPDATE webhooks SET enabled = false")
    assert isinstance((await months.remove())[-1], NotRemoved)
    await months.execute("UPDATE webhooks SET deleted_at = now()")
    await months.remove()
    assert await months.positions() == [4]


async def test_events_of_parked_accounts_are_never_removed(months: Months) -> None:
    await three_old_and_one_new(months)
    hook = await months.register(at=4)
    await months.execute(
        "INSERT INTO webhook_parked (organisation_id, webhook_id, account_id, position, refusals, parked_at, "
        "next_attempt_at) VALUES ($1, $2, $3, 2, 5, now(), now())",
        months.one.organisation_id,
        hook.id,
        months.one.account_id,
    )
    await months.remove()
    assert await months.positions() == [2, 3, 4]


async def test_a_rewind_and_a_removal_at_the_same_time_never_lose_an_event(months: Months, api: ApiClient) -> None:
    moments = await three_old_and_one_new(months)
    hook = await months.register(at=4)
    answer, _ = await asyncio.gather(
        api.post(f"/v1/webhooks/{hook.id}/rewind", {"sequence": to_wire(moments[1])}), months.remove()
    )
    cursor = await months.fetchval("SELECT cursor_position FROM webhooks")
    if answer.status_code == 409:
        assert (codes(answer), cursor) == (["events_removed"], 4)
    else:
        assert (answer.status_code, cursor) == (200, 1)
        assert await months.positions() == [2, 3, 4]
    assert "no webhook waits for removed events" not in await months.breaches()


async def test_a_rewind_below_the_floor_says_what_is_the_earliest_event(months: Months, api: ApiClient) -> None:
    moments = await three_old_and_one_new(months)
    [removed] = await months.fetch("SELECT id FROM events WHERE position = 2")
    hook = await months.register(at=4)
    await months.remove()
    path = f"/v1/webhooks/{hook.id}/rewind"
    for moment in (moments[0], moments[2]):
        answer = await api.post(path, {"sequence": to_wire(moment)})
        assert (answer.status_code, codes(answer), fields(answer)) == (409, ["events_removed"], ["sequence"])
        assert "The earliest event is at position 4" in answer.text
        assert to_wire(moments[2]) in answer.text
    # Its id says when it was made: in this test just now, so it is only unknown.
    assert codes(await api.post(path, {"event_id": removed["id"]})) == ["webhook_rewind_invalid"]
    answer = await api.post(path, {"sequence": to_wire(moments[2] + timedelta(milliseconds=1))})
    assert answer.status_code == 200
    assert await months.fetchval("SELECT cursor_position FROM webhooks") == 3


async def test_a_client_that_missed_removed_events_is_told(months: Months, api: ApiClient) -> None:
    moments = await three_old_and_one_new(months)
    first = (await api.get("/v1/events?order=asc&limit=1")).json()
    await months.remove()
    for query in (f"after_sequence={to_wire(moments[0])}&order=asc", f"after_sequence={to_wire(moments[1])}"):
        answer = await api.get(f"/v1/events?{query}")
        assert (answer.status_code, codes(answer), fields(answer)) == (409, ["events_removed"], ["after_sequence"])
    answer = await api.get(f"/v1/events?order=asc&limit=1&after={first['next_cursor']}")
    assert (answer.status_code, codes(answer), fields(answer)) == (409, ["events_removed"], ["after"])
    for query in ("", "?order=asc", f"?order=asc&after_sequence={to_wire(moments[2])}"):
        answer = await api.get(f"/v1/events{query}")
        assert [event["sequence"] for event in answer.json()["data"]] == [to_wire(moments[3])], query


async def test_orders_whose_events_were_removed_are_no_error(months: Months, services: Services, world: World) -> None:
    await place(services, world.ours_test.scope, month_start(5) + DAY)
    await place(services, world.ours_test.scope, datetime.now(UTC).replace(microsecond=0))
    assert await months.breaches() == {}
    await months.remove()
    assert await months.positions() == [3, 4]
    assert await months.breaches() == {}
    await months.execute("DELETE FROM events WHERE position = 3")
    assert set(await months.breaches()) >= {
        "stream positions have no gap",
        "an order's events follow the transition table",
    }


async def test_without_a_usable_folder_nothing_is_removed(months: Months, settings: Settings, tmp_path: Path) -> None:
    await three_old_and_one_new(months)
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    months.settings = msgspec.structs.replace(settings, archive_dir=str(blocked / "archive"))
    with pytest.raises(ArchiveError, match="TONNE_ARCHIVE_DIR"):
        await months.remove()
    assert await months.positions() == [1, 2, 3, 4]
    # The events are hidden already; the next run continues.
    months.settings = settings
    await months.remove()
    assert await months.positions() == [4]


async def test_a_table_in_use_keeps_its_partition_until_the_next_run(
    months: Months, monkeypatch: pytest.MonkeyPatch, settings: Settings
) -> None:
    await three_old_and_one_new(months)
    monkeypatch.setattr("tonne.apps.privacy.retention.remove_partitions.DROP_TRIES", 2)
    async with months.database.transaction() as tx:
        await tx.execute("SELECT FROM events")
        [outcome] = await months.remove()
        assert isinstance(outcome, NotRemoved)
        assert "in use" in outcome.reason
    # The archive is there already, and so are the rows. The next run writes it again.
    assert await months.positions() == [1, 2, 3, 4]
    assert list(settings.archive_path.glob("*.jsonl.gz"))
    assert all(isinstance(outcome, RemovedPartition) for outcome in await months.remove())


async def test_a_file_of_a_run_that_crashed_is_replaced(months: Months, settings: Settings) -> None:
    await three_old_and_one_new(months)
    settings.archive_path.mkdir()
    for name in ("events_part_0.jsonl.gz.1.unfinished", "events_part_0.jsonl.gz", "events_part_0.manifest.json"):
        (settings.archive_path / name).write_bytes(b"half of")
    long_ago = time.time() - 2 * DAY.total_seconds()
    os.utime(settings.archive_path / "events_part_0.jsonl.gz.1.unfinished", (long_ago, long_ago))
    outcomes = await months.remove()
    assert all(isinstance(outcome, RemovedPartition) for outcome in outcomes)
    path = settings.archive_path / "events_part_0.jsonl.gz"
    check_contents(path, read_manifest(path))
    assert not list(settings.archive_path.glob("*.unfinished"))


async def test_two_processes_remove_each_partition_once(months: Months) -> None:
    await three_old_and_one_new(months)
    runs = await asyncio.gather(*(months.remove() for _ in range(3)))
    names = [outcome.name for run in runs for outcome in run if isinstance(outcome, RemovedPartition)]
    assert len(names) == len(set(names))
    await months.remove()
    assert await months.positions() == [4]


ADD_MAIL = """
INSERT INTO mails (id, organisation_id, recipients, message, created_at, next_attempt_at, sent_at)
VALUES ($1, 'org_1', '{a@example.org}', 'x', $2, $3, $4)
"""


async def test_mails_that_wait_or_failed_are_kept(months: Months, settings: Settings) -> None:
    old, older, now = month_start(19) + DAY, month_start(20) + DAY, datetime.now(UTC)
    await make_months(months.database, MAILS, month_start(21))
    await months.execute(ADD_MAIL, "mail_1", older, older, older)
    await months.execute(ADD_MAIL, "mail_2", old, None, None)
    await months.execute(ADD_MAIL, "mail_3", now, now, None)
    outcomes = [each for each in await months.remove() if getattr(each, "table_name", "mails") == "mails"]
    assert isinstance(outcomes[-1], NotRemoved)
    assert "1 mails in it wait" in outcomes[-1].reason
    assert [row["id"] for row in await months.fetch("SELECT id FROM mails ORDER BY id")] == ["mail_2", "mail_3"]
    await months.execute("UPDATE mails SET discarded_at = now() WHERE id = 'mail_2'")
    await months.remove()
    assert [row["id"] for row in await months.fetch("SELECT id FROM mails ORDER BY id")] == ["mail_3"]
    archived = [line for path in sorted(settings.archive_path.glob("mails_*.gz")) for line in lines_of(path)]
    assert [(line["id"], line["message"]) for line in archived] == [("mail_1", "eA=="), ("mail_2", "eA==")]


async def test_attempts_are_removed_by_the_job_without_an_archive(months: Months) -> None:
    settings = msgspec.structs.replace(months.settings, archive_tables="events")
    await make_months(months.database, ATTEMPTS, month_start(4))
    add = (
        "INSERT INTO webhook_attempts (organisation_id, webhook_id, id, at, positions, acknowledged, duration_ms) "
        "VALUES ('org_1', 'wh_1', $1, $2, '{1}', true, 1)"
    )
    await months.execute(add, "att_1", month_start(3) + DAY)
    await months.execute(add, "att_2", datetime.now(UTC))
    job = RemovePartitions(months.database, lambda: datetime.now(UTC), settings)
    assert await job.run_once() is True
    assert await job.run_once() is False
    assert [row["id"] for row in await months.fetch("SELECT id FROM webhook_attempts")] == ["att_2"]
    removed = await months.fetch("SELECT file_name FROM removed_partitions WHERE table_name = 'webhook_attempts'")
    assert {row["file_name"] for row in removed} == {None}
    async with months.database.connection() as connection:
        assert len(await list_partitions(connection, ATTEMPTS)) >= 2


async def waiting(months: Months) -> dict[str, list[str]]:
    async with months.database.transaction() as tx:
        return await find_waiting(tx, months.settings, datetime.now(UTC))


async def test_the_doctor_names_partitions_that_should_be_gone_and_damaged_archives(
    months: Months, settings: Settings
) -> None:
    await three_old_and_one_new(months)
    assert "events_part_0, rows until" in (await waiting(months))[LATE][0]
    await months.remove()
    assert LATE not in await waiting(months)
    assert ARCHIVES not in await waiting(months)
    path = settings.archive_path / "events_part_0.jsonl.gz"
    path.write_bytes(path.read_bytes()[:-1])
    [problem] = (await waiting(months))[ARCHIVES]
    assert "restore it from a backup" in problem
    path.unlink()
    assert "is missing" in (await waiting(months))[ARCHIVES][0]


async def test_a_change_of_one_byte_is_found(months: Months, settings: Settings) -> None:
    await three_old_and_one_new(months)
    await months.remove()
    path = max(settings.archive_path.glob("*.gz"), key=lambda path: path.stat().st_size)
    data = path.read_bytes()
    for at in range(0, len(data), 7):
        path.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :])
        with pytest.raises(ArchiveError, match="restore it from a backup"):
            check_contents(path, read_manifest(path))
    path.write_bytes(data)
    check_contents(path, read_manifest(path))


def test_tables_that_cannot_be_archived_are_refused() -> None:
    with pytest.raises(SettingsError, match="TONNE_ARCHIVE_TABLES: orders cannot be archived"):
        load_settings({"TONNE_ARCHIVE_TABLES": "events, orders"})
