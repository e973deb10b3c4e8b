"""`tonne doctor` finds every way in which the log can differ from its entries, and from what happened."""

from datetime import timedelta

from tests.supply.transparency.scene import LogScene
from tests.support.plain_documents import store_plainly
from tests.support.postgres import undone
from tests.support.world import TESTER
from tonne.apps.cli.operations.doctor import find_breaches
from tonne.apps.lookup.doctor.doctor_checks import ALL_WAITING
from tonne.platform.db.database import Connection
from tonne.selling.orders.queue import lock_order
from tonne.supply.certificates.proofs.log_invariants import INVARIANTS
from tonne.supply.certificates.reissue_certificate import withdraw_certificate
from tonne.supply.transparency.check_tree import find_broken_trees
from tonne.supply.transparency.waiting import QUEUES, WAITING

EVENTS, POSITIONS, ENTRIES, FACTS, NAMES, ERASED, CHECKPOINTS = (each.name for each in INVARIANTS)
_OTHER_VINTAGE = """
UPDATE log_statements SET statement = convert_to(replace(convert_from(statement, 'UTF8'), '2024', '2023'), 'UTF8')
WHERE position = 0
"""
# The invariant, the statement that violates it, and the other invariants that it violates.
VIOLATIONS: list[tuple[str, str, set[str]]] = [
    (EVENTS, "DELETE FROM log_statements WHERE position = 0", {POSITIONS}),
    (EVENTS, "DELETE FROM log_statements WHERE position = 1", {POSITIONS}),
    (EVENTS, "DELETE FROM log_statements WHERE kind = 'certificate.withdrawn'", {POSITIONS}),
    (
        EVENTS,
        "INSERT INTO log_statements (mode, kind, subject, at) VALUES ('live', 'retirement', 'par_x', now())",
        set(),
    ),
    (POSITIONS, "UPDATE log_statements SET position = 90 WHERE position = 2", {ENTRIES}),
    (POSITIONS, "UPDATE logs SET size = size + 1", set()),
    (POSITIONS, "UPDATE log_statements SET log_id = 90", {ENTRIES}),
    (ENTRIES, _OTHER_VINTAGE, {FACTS}),
    (ENTRIES, "UPDATE log_statements SET salt = sha256('') WHERE position = 1", set()),
    (ENTRIES, "UPDATE log_entries SET entries = set_byte(entries, 40, get_byte(entries, 40) # 1)", set()),
    (FACTS, "UPDATE lots SET vintage = 2022", set()),
    (FACTS, "UPDATE parcels SET retired_on = retired_on + 1", set()),
    (FACTS, "UPDATE projects SET registry_project_id = 'X' || id", set()),
    (
        FACTS,
        "UPDATE certificates SET record = convert_to(replace(convert_from(record, 'UTF8'), '\"2\"', '\"3\"'), 'UTF8')",
        set(),
    ),
    (NAMES, "UPDATE log_statements SET names = replace(names, 'Ada', 'Eva') WHERE position = 1", {ERASED}),
    (
        ERASED,
        "UPDATE certificates SET record = convert_to(replace(convert_from(record, 'UTF8'), 'Ada', 'x'), 'UTF8')",
        set(),
    ),
    (CHECKPOINTS, "UPDATE log_checkpoints SET root = sha256('x')", set()),
    (CHECKPOINTS, "UPDATE log_checkpoints SET note = replace(note, 'tonne.test', 'other.test')", set()),
    (CHECKPOINTS, "DELETE FROM log_checkpoints", set()),
]
TREES = [
    ("UPDATE log_entries SET entries = set_byte(entries, 40, get_byte(entries, 40) # 1) WHERE number = 0", "tile 0 of"),
    (
        "UPDATE log_tiles SET hashes = set_byte(hashes, 40, get_byte(hashes, 40) # 1) WHERE level = 0 AND number = 1",
        "tile 1 of level 0",
    ),
    (
        "UPDATE log_tiles SET hashes = set_byte(hashes, 9, get_byte(hashes, 9) # 1) WHERE level = 1",
        "tile 0 of level 1",
    ),
    ("DELETE FROM log_tiles WHERE level = 1", "does not have the root of tile"),
    ("DELETE FROM log_entries WHERE number = 1", "entries, and the size is"),
    ("UPDATE log_checkpoints SET root = sha256('x') WHERE size < 400", "has another root than the tree"),
]


_NAMES = {each.name for each in INVARIANTS}


async def _breaches(tx: Connection) -> dict[str, list[str]]:
    return {name: found for name, found in (await find_breaches(tx, ())).items() if name in _NAMES}


async def test_every_invariant_of_the_log_finds_its_violation(scene: LogScene) -> None:
    order = await scene.certify()
    async with scene.database.transaction() as tx:
        locked = await lock_order(tx, order.scope, order.id)
        assert locked is not None
        await withdraw_certificate(tx, locked, reason="Wrong.", by=TESTER.at(scene.clock()))
    await scene.publish_all()
    await scene.check_invariants()
    assert {name for name, _, _ in VIOLATIONS} == _NAMES
    for name, sql, others in VIOLATIONS:
        async with undone(scene.database) as tx:
            await store_plainly(tx)
            await tx.execute(sql)
            found = await _breaches(tx)
            assert found.keys() == {name, *others}, (sql, found)


async def test_the_doctor_recomputes_the_tree(scene: LogScene) -> None:
    await scene.certify()
    await scene.retire_many(300)
    await scene.publish_all()
    middle = scene.clock()
    scene.clock.advance(minutes=1)
    await scene.certify()
    await scene.publish_all()
    async with scene.database.connection() as connection:
        assert await find_broken_trees(connection) == []
        assert await find_broken_trees(connection, middle + timedelta(seconds=1)) == []
    for sql, problem in TREES:
        async with undone(scene.database) as tx:
            await tx.execute(sql)
            found = await find_broken_trees(tx)
            assert problem in " ".join(found), (sql, found)


async def test_the_doctor_warns_of_what_has_no_checkpoint_for_five_minutes(scene: LogScene) -> None:
    own = WAITING[:2]

    async def waiting(minutes: float) -> list[int]:
        now = await scene.fetchval("SELECT now()") + timedelta(minutes=minutes)
        return [len(await scene.fetch(check.sql, *check.parameters(scene.settings, now))) for check in own]

    assert set(own) <= set(ALL_WAITING)
    await scene.certify()
    queue = QUEUES[0]
    assert [(row["mode"], row["depth"]) for row in await scene.fetch(queue.sql)] == [("live", 2)]
    assert await waiting(4.9) == [0, 0]
    assert await waiting(5.1) == [0, 2]
    await scene.append_all()
    assert await scene.fetch(queue.sql) == []
    assert await waiting(5.1) == [0, 2]
    scene.head.path.parent.mkdir(parents=True)
    scene.head.path.write_text("garbage")
    await scene.publish_all()
    assert await waiting(5.1) == [1, 2]
    scene.head.path.unlink()
    await scene.publish_all()
    assert await waiting(5.1) == [0, 0]
