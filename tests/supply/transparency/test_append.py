"""The worker appends what happened to the log: every event once, at gapless positions of an RFC 6962 tree."""

import asyncio
import random
from datetime import date

import pytest
from msgspec.structs import replace

from tests.supply.transparency.scene import LogScene
from tests.support.clock import MARCH
from tests.support.world import TESTER
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode
from tonne.selling.orders.queue import lock_order
from tonne.supply.certificates.proofs.statement_source import read_stated_rows
from tonne.supply.certificates.reissue_certificate import reissue_certificate, withdraw_certificate
from tonne.supply.stock.parcels.parcel_store import lock_parcels_any_account, move_changed_parcels
from tonne.supply.transparency.append_leaves import AppendLeaves, append_waiting
from tonne.supply.transparency.log_store import lock_log, open_log
from tonne.supply.transparency.model import Log
from tonne.supply.transparency.tree import TreeBroken, grow_tiles, last_tiles
from tonne_verify.merkle import Range, leaf_hash
from tonne_verify.tiles import TileId, root_plan

TONNE = 1_000_000


async def open_and_lock(tx: Connection) -> Log:
    await open_log(tx, Mode.LIVE, 1, "tonne.test/log", MARCH)
    log = await lock_log(tx, Mode.LIVE)
    assert log is not None
    return log


def test_tiles_that_grow_in_batches_have_the_root_of_the_tree() -> None:
    """Beyond 65,536 leaves, so that level 2 begins."""
    chance = random.Random(5)  # noqa: S311 - a test
    tiles: dict[tuple[int, int], bytes] = {}
    tree, size = Range(), 0
    while size < 66_000:
        batch = [leaf_hash(f"{size + place}".encode()) for place in range(chance.choice((1, 2, 255, 256, 999, 4000)))]
        partial = {level: tiles[level, number] for level, number, _ in last_tiles(size)}
        for tile in grow_tiles(size, batch, partial):
            tiles[tile.level, tile.number] = tile.hashes
        for leaf in batch:
            tree.append(leaf)
        size += len(batch)
        plan = root_plan(size)
        stored = {tile: tiles[tile.level, tile.index] for tile in plan.tiles}
        assert all(len(hashes) == tile.width * 32 for tile, hashes in stored.items())
        assert plan.compute(stored) == tree.root()
    assert max(level for level, _ in tiles) == 2
    with pytest.raises(TreeBroken, match="Tile 0 of level 0 does not have 3 hashes"):
        grow_tiles(3, [bytes(32)], {0: bytes(64)})
    assert TileId(2, 0, 1) in root_plan(size).tiles


async def test_retirements_and_certificates_are_logged_without_names(scene: LogScene) -> None:
    order = await scene.certify()
    await scene.append_all()
    retirement, issued = await scene.openings()
    record = await scene.certificate(order)
    (line,) = record["lines"]
    assert retirement.statement["kind"] == "retirement"
    facts = {name: line[name] for name in ("registry", "project_id", "vintage", "serial_range", "retired_on")}
    assert retirement.statement["facts"] == {
        **facts,
        "quantity": "2",
        "retirement_url": "https://registry.example/r",
    }
    assert retirement.names is None
    assert issued.statement["subject"] == record["number"]
    assert issued.statement["at"] == record["issued_at"]
    stated = issued.statement["facts"]
    personal = {"beneficiary", "logo", "name_erased_on", "lines", "supplied_on"}
    assert {**stated, "lines": ()} == {**{k: v for k, v in record.items() if k not in personal}, "lines": ()}
    assert stated["lines"][0]["in_advance"].keys() == {"retired_by", "assigned_on"}
    assert "Ada Keller" not in str(issued.statement)
    assert issued.names == {
        "beneficiary": "Ada Keller",
        "reason": None,
        "lines": [{"registry_name": None, "assigned_to": "Ada Keller"}],
    }
    for opening in (retirement, issued):
        opening.check()
    log = await scene.log()
    assert (log.origin, log.size) == ("tonne.test/log", 2)
    await scene.check_tree()


async def test_a_certificate_that_is_withdrawn_and_then_replaced_has_a_statement_for_each(scene: LogScene) -> None:
    order = await scene.certify()
    async with scene.database.transaction() as tx:
        locked = await lock_order(tx, order.scope, order.id)
        assert locked is not None
        await withdraw_certificate(tx, locked, reason="A wrong lot.", by=TESTER.at(scene.clock()))
        await reissue_certificate(tx, locked, reason="Of Ada.", settings=scene.settings, by=TESTER.at(scene.clock()))
    await scene.append_all()
    logged = [(each.statement["kind"], each.names and each.names["reason"]) for each in await scene.openings()]
    assert logged == [
        ("retirement", None),
        ("certificate.issued", None),
        ("certificate.withdrawn", "A wrong lot."),
        ("certificate.replaced", "Of Ada."),
        ("certificate.issued", "Of Ada."),
    ]
    (new, _), (old, _) = await scene.certificate_states(order)
    replaced = (await scene.openings())[3].statement
    assert replaced["facts"] == {"number": old, "replaced_by": new}


async def move_parcels(scene: LogScene, grams: int) -> None:
    """To other serials of their lots."""
    async with scene.database.transaction() as tx:
        ids = [row["id"] for row in await tx.fetch("SELECT id FROM parcels WHERE mode = $1", scene.mode)]
        booked = await lock_parcels_any_account(tx, scene.mode, ids, [])
        moved = [(parcel, replace(parcel, start_grams=parcel.start_grams + grams)) for parcel in booked]
        await move_changed_parcels(tx, scene.mode, moved)


async def test_a_correction_of_a_logged_retirement_is_logged(scene: LogScene) -> None:
    await scene.certify()
    await scene.correct(date(2025, 5, 7))
    await scene.append_all()
    assert [each.statement["facts"].get("revision") for each in await scene.openings()] == [None, None]
    await scene.correct(date(2025, 5, 8))
    await move_parcels(scene, TONNE)
    await scene.append_all()
    *_, corrected = await scene.openings()
    assert len(await scene.openings()) == 3
    assert corrected.statement["facts"]["revision"] == 2
    assert corrected.statement["facts"]["retired_on"] == "2025-05-08"
    assert corrected.statement["facts"]["serial_range"].endswith(" 102–103")


async def test_a_correction_waits_for_the_worker_that_appends_the_old_facts(scene: LogScene) -> None:
    await scene.certify()
    await scene.append_all()
    await scene.correct(date(2025, 5, 7))
    async with scene.database.transaction() as tx:
        assert await append_waiting(tx, await open_and_lock(tx), 10, read_stated_rows) == 1
        correction = asyncio.create_task(scene.correct(date(2025, 5, 9)))
        await scene.until_waiting_for_lock()
    await correction
    await scene.append_all()
    days = [each.statement["facts"]["retired_on"] for each in await scene.openings() if each.names is None]
    assert days == ["2025-05-06", "2025-05-07", "2025-05-09"]


async def test_after_a_crash_the_same_statements_are_appended_once(scene: LogScene) -> None:
    await scene.certify()
    await scene.retire_many(300)
    async with scene.database.connection() as connection:
        transaction = connection.transaction()
        await transaction.start()
        assert await append_waiting(connection, await open_and_lock(connection), 280, read_stated_rows) == 280
        connection.terminate()
    assert await scene.fetchval("SELECT count(*) FROM log_tiles") == 0
    async with scene.database.transaction() as tx:
        assert await append_waiting(tx, await open_and_lock(tx), 5, read_stated_rows) == 5
    await scene.append_all()
    assert len(await scene.check_tree()) == 302


async def test_two_workers_append_each_statement_once(scene: LogScene) -> None:
    await scene.certify()
    await scene.retire_many(2_600)
    workers = [AppendLeaves(scene.database, scene.clock, scene.settings, read_stated_rows) for _ in range(2)]
    barrier = asyncio.Barrier(2)

    async def work(worker: AppendLeaves) -> int:
        await barrier.wait()
        runs = 0
        while await worker.run_once():
            runs += 1
        return runs

    assert sum(await asyncio.gather(*map(work, workers))) >= 3
    assert len(set(await scene.check_tree())) == 2_602


async def test_a_worker_passes_by_a_log_that_another_one_appends_to(scene: LogScene) -> None:
    await scene.certify()
    async with scene.database.transaction() as other:
        await open_and_lock(other)
    async with scene.database.transaction() as other:
        assert await lock_log(other, Mode.LIVE) is not None
        assert await scene.append.run_once() is False
    assert await scene.append.run_once() is True
    assert len(await scene.check_tree()) == 2


async def test_a_statement_that_cannot_be_composed_does_not_stop_the_others(scene: LogScene) -> None:
    await scene.execute("INSERT INTO log_statements (mode, kind, subject, at) SELECT 'live', 'retirement', 'x', now()")
    await scene.certify()
    await scene.append_all()
    assert len(await scene.check_tree()) == 2
