"""Checkpoints: signed once, never behind the last signed one, and safe outside of the database first."""

import asyncio
from pathlib import Path

import pytest

from tests.supply.transparency.scene import LogScene
from tests.support.command import output_of
from tonne.platform.values.context import Mode, utc_now
from tonne.supply.certificates.proofs.read_proofs import prove_consistency
from tonne.supply.certificates.proofs.statement_source import read_stated_rows
from tonne.supply.transparency.append_leaves import append_waiting
from tonne.supply.transparency.head_file import HeadFile
from tonne.supply.transparency.log_store import lock_log
from tonne.supply.transparency.publish_checkpoints import PublishCheckpoints, PublishingRefused
from tonne_verify.merkle import check_consistency
from tonne_verify.notes import Checkpoint, open_note, split_note

NOTES = "SELECT note FROM log_checkpoints ORDER BY log_id, size"


async def notes(scene: LogScene) -> list[Checkpoint]:
    keys = await scene.keys.verifier_keys("tonne.test/log")
    return [Checkpoint.parse(open_note(row["note"], keys).text) for row in await scene.fetch(NOTES)]


async def test_a_log_that_grew_gets_a_signed_checkpoint_at_most_every_5_seconds(scene: LogScene) -> None:
    assert not await scene.publish.run_once()
    await scene.certify()
    await scene.publish_all()
    await scene.certify()
    await scene.append_all()
    scene.clock.advance(seconds=4)
    assert not await scene.publish.run_once()
    scene.clock.advance(seconds=1)
    assert await scene.publish.run_once()
    scene.clock.advance(minutes=1)
    assert not await scene.publish.run_once()
    first, second = await notes(scene)
    assert (first.origin, first.size, second.size) == ("tonne.test/log", 2, 4)
    async with scene.database.connection() as connection:
        proof = await prove_consistency(connection, (await scene.log()).id, 2, 4)
    check_consistency(2, 4, proof, first.root, second.root)
    assert scene.head.read() == (await scene.fetch(NOTES))[-1]["note"]


async def test_cosignatures_are_collected_after_the_head_is_safe_and_before_the_checkpoint_is_stored(
    scene: LogScene,
) -> None:
    seen: list[str | None] = []

    async def cosign(log_id: int, note: str) -> str:
        assert log_id == (await scene.log()).id
        seen.append(scene.head.read())
        assert await scene.fetch(NOTES) == []
        return f"{note}\N{EM DASH} witness.example abcdefgh\n"

    publish = PublishCheckpoints(scene.database, scene.clock, scene.settings, scene.keys, cosign)
    await scene.certify()
    await scene.append_all()
    assert await publish.run_once()
    (stored,) = await scene.fetch(NOTES)
    (signed,) = seen
    assert signed is not None
    assert stored["note"] == scene.head.read() == f"{signed}\N{EM DASH} witness.example abcdefgh\n"
    assert len(split_note(stored["note"])[1]) == 2


async def test_a_checkpoint_that_was_signed_before_a_crash_is_stored_as_it_is(scene: LogScene) -> None:
    """The worker stops between writing the head file and storing the checkpoint."""
    await scene.certify()

    async def crash(_: int, note: str) -> str:
        raise ConnectionError(note)

    await scene.append_all()
    with pytest.raises(ConnectionError) as crashed:
        await PublishCheckpoints(scene.database, scene.clock, scene.settings, scene.keys, crash)._publish(
            await scene.log()
        )
    await scene.publish_all()
    assert [row["note"] for row in await scene.fetch(NOTES)] == [str(crashed.value)]


async def test_two_workers_publish_each_size_once(scene: LogScene) -> None:
    await scene.certify()
    await scene.append_all()
    workers = [PublishCheckpoints(scene.database, scene.clock, scene.settings, scene.keys) for _ in range(4)]
    log = await scene.log()
    assert sum(await asyncio.gather(*(worker._publish(log) for worker in workers))) == 1
    assert len(await notes(scene)) == 1


async def test_a_delayed_worker_adds_no_smaller_checkpoint(scene: LogScene) -> None:
    """The proof of an entry is against the first checkpoint that covers it, so it would change."""
    await scene.certify()
    await scene.append_all()
    behind = await scene.log()
    await scene.certify()
    await scene.publish_all()
    with pytest.raises(PublishingRefused) as refused:
        await scene.publish._publish(behind)
    await scene.publish._refuse(behind, str(refused.value))
    assert await scene.refusal() is None
    assert [each.size for each in await notes(scene)] == [4]
    assert "\n4\n" in (scene.head.read() or "")


LOSE_CERTIFICATE = """
UPDATE logs SET size = 2, published_size = 2;
DELETE FROM log_checkpoints WHERE size > 2;
UPDATE log_statements SET log_id = NULL, position = NULL, statement = NULL, salt = NULL, names = NULL, names_salt = NULL
WHERE position >= 2;
UPDATE log_tiles SET hashes = substr(hashes, 1, 64);
UPDATE log_entries SET entries = substr(entries, 1, 68)
"""


async def test_a_restored_database_publishes_nothing_until_the_log_is_reopened(scene: LogScene) -> None:
    first = await scene.certify()
    await scene.publish_all()
    old = await scene.prove(first)
    await scene.certify()
    await scene.publish_all()
    head = scene.head.read()
    async with scene.database.connection() as connection:
        await connection.execute(LOSE_CERTIFICATE)
    third = await scene.certify()
    # Behind the head, and then longer than it with other entries.
    for count in (3, 6):
        async with scene.database.transaction() as tx:
            log = await lock_log(tx, Mode.LIVE)
            assert log is not None
            await append_waiting(tx, log, count - log.size, read_stated_rows)
        scene.clock.advance(seconds=5)
        assert not await scene.publish.run_once()
        refusal = await scene.refusal() or ""
        assert f"has {count} entries, which do not continue the 4 entries of the last signed checkpoint" in refusal
        assert "`tonne log reopen live --reason TEXT`" in refusal
    assert scene.head.read() == head
    assert len(await notes(scene)) == 1

    settings = scene.settings
    said = output_of(
        "log",
        "reopen",
        "live",
        "--reason",
        "The disk is lost.",
        database_url=scene.database._url,
        data_dir=settings.data_dir,
        public_url=settings.public_url,
        secret_key=settings.secret_key,
    )
    assert "The log tonne.test/log is closed. The worker publishes tonne.test/log/2" in said
    scene.clock.now = utc_now()
    await scene.publish_all()
    assert await scene.refusal() is None
    entries = await scene.check_tree(2)
    assert entries[0].decode() == head
    assert len(entries) == 1 + 4
    assert await scene.prove(first) == old
    assert (await scene.check_entry((await scene.prove(third)).issued[0])).origin == "tonne.test/log/2"
    await scene.check_invariants()


async def test_publishing_is_refused_without_the_head_file(scene: LogScene, tmp_path: Path) -> None:
    await scene.certify()
    await scene.publish_all()
    head = scene.head.read()
    assert head is not None
    scene.head.path.unlink()
    await scene.certify()
    await scene.publish_all()
    assert f"There is no file {scene.head.path}" in (await scene.refusal() or "")
    for content, problem in (
        ("garbage", "is not a checkpoint that this service has signed"),
        (head.replace("\n2\n", "\n1\n"), "is not a checkpoint that this service has signed"),
        (head.replace("tonne.test", "other.test"), "is not a checkpoint that this service has signed"),
    ):
        scene.head.path.write_text(content)
        await scene.publish_all()
        assert problem in (await scene.refusal() or "")
    scene.head.path.write_text(head)
    await scene.publish_all()
    assert await scene.refusal() is None
    assert [each.size for each in await notes(scene)] == [2, 4]
    assert HeadFile(scene.settings, Mode.TEST).read() is None
    assert scene.head.path.is_relative_to(tmp_path)
