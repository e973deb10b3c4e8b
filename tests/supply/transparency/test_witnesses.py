"""Checkpoints are published with the cosignatures of witnesses, and a witness that is down delays nothing."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tests.supply.transparency.scene import LogScene
from tests.support.receivers import Listener, hang
from tests.support.tls import Authority
from tests.support.witness import Witness, listening_witness
from tonne.supply.certificates.proofs.read_proofs import prove_consistency
from tonne.supply.transparency.publish_checkpoints import PublishCheckpoints
from tonne.supply.transparency.served_store import find_note
from tonne.supply.transparency.waiting import QUEUES, WAITING
from tonne.supply.transparency.witnesses import Witnesses
from tonne_verify.notes import Checkpoint, VerifierKey, open_note
from tonne_verify.proofs import TlogProof

SILENT = "witnesses cosign the live log"
ALARM = "no witness has seen another log"


class WitnessedLog:
    """A log in a database, the jobs that publish it, and its witnesses."""

    def __init__(self, scene: LogScene, *witnesses: Witness, ca_file: Path) -> None:
        self.scene = scene
        named = ", ".join(f"{each.url} {each.vkey}" for each in witnesses)
        self._settings = msgspec.structs.replace(
            scene.services.settings, log_witnesses=named, log_witness_ca_file=str(ca_file)
        )
        self.witnesses = Witnesses(scene.database, self._settings, scene.clock, prove_consistency)
        self._publish = PublishCheckpoints(
            scene.database, scene.clock, self._settings, scene.keys, self.witnesses.cosign
        )
        for witness in witnesses:
            witness.now = lambda: scene.clock().timestamp()

    async def grow(self) -> str:
        """The number of a certificate that enters the log; the checkpoint is not published yet."""
        order = await self.scene.certify()
        await self.scene.append_all()
        return str((await self.scene.certificate(order))["number"])

    async def follow(self, *witnesses: Witness) -> None:
        origin = (await self.scene.log()).origin
        for witness in witnesses:
            witness.follow(origin, (await self.scene.keys.note_key(origin)).vkey)

    async def publish(self) -> str:
        """The checkpoint that is stored."""
        self.scene.clock.advance(seconds=10)
        assert await self._publish.run_once()
        note: str = await self.scene.fetchval("SELECT note FROM log_checkpoints ORDER BY log_id, size DESC LIMIT 1")
        return note

    async def served(self) -> str:
        async with self.scene.database.connection() as connection:
            note = await find_note(connection, self.scene.mode, 1)
        assert note is not None
        return note

    async def waiting(self, name: str) -> list[str]:
        (check,) = (each for each in WAITING if each.name == name)
        rows = await self.scene.fetch(check.sql, *check.parameters(self._settings, self.scene.clock()))
        return [row["where"] for row in rows]

    async def failing(self) -> int:
        """As the metrics count them."""
        (queue,) = (each for each in QUEUES if each.name == "failing_witnesses")
        return sum(row["depth"] for row in await self.scene.fetch(queue.sql))


def cosigners(note: str, *witnesses: Witness) -> set[str]:
    """The names of those who have validly cosigned it."""
    lines = [line for line in note.splitlines() if line.startswith("— ")]
    if len(lines) == 1:
        return set()
    opened = open_note(note, [VerifierKey.parse(each.vkey) for each in witnesses])
    assert len(opened.signatures) == len(lines) - 1
    return {each.key.name for each in opened.signatures}


async def proven_by(scene: LogScene, number: str) -> set[str]:
    evidence = await scene.evidence(number)
    assert evidence is not None
    return {TlogProof.parse(each["proof"]).checkpoint for each in evidence.all}


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


@asynccontextmanager
async def witnessing(folder: Path, name: str, authority: Authority) -> AsyncIterator[tuple[Witness, Listener]]:
    folder.mkdir()  # noqa: ASYNC240 - before anything else runs
    async with listening_witness(Witness(folder, name), authority.context()) as opened:
        yield opened


@pytest.fixture
async def first(tmp_path: Path, authority: Authority) -> AsyncIterator[tuple[Witness, Listener]]:
    async with witnessing(tmp_path / "first", "witness.example/first", authority) as opened:
        yield opened


@pytest.fixture
async def second(tmp_path: Path, authority: Authority) -> AsyncIterator[tuple[Witness, Listener]]:
    async with witnessing(tmp_path / "second", "witness.example/second", authority) as opened:
        yield opened


Watched = Callable[..., WitnessedLog]


@pytest.fixture
async def watched(scene: LogScene, authority: Authority) -> AsyncIterator[Watched]:
    """The log with these witnesses in the settings."""
    opened: list[WitnessedLog] = []

    def open_log(*witnesses: Witness) -> WitnessedLog:
        opened.append(WitnessedLog(scene, *witnesses, ca_file=authority.ca_file))
        return opened[-1]

    yield open_log
    for each in opened:
        await each.witnesses.close()


async def test_checkpoints_and_proofs_carry_the_cosignatures_of_all_witnesses(
    scene: LogScene, first: tuple[Witness, Listener], second: tuple[Witness, Listener], watched: Watched
) -> None:
    both = first[0], second[0]
    log = watched(*both)
    number = await log.grow()
    await log.follow(*both)
    note = await log.publish()
    assert cosigners(note, *both) == {"witness.example/first", "witness.example/second"}
    head = Checkpoint.parse(note.partition("\n\n")[0] + "\n")
    assert [each.last_seen(head.origin) for each in both] == [(head.size, head.root)] * 2
    evidence = await scene.evidence(number)
    assert await proven_by(scene, number) == {note}
    await log.grow()
    later = await log.publish()
    assert cosigners(later, *both) == cosigners(note, *both)
    assert [body.split("\n", 1)[0] for body in both[0].bodies] == ["old 0", f"old {head.size}"]
    # The proof stays as it was.
    assert await scene.evidence(number) == evidence


async def test_a_witness_that_is_down_delays_nothing_and_cosigns_later(
    scene: LogScene, first: tuple[Witness, Listener], second: tuple[Witness, Listener], watched: Watched
) -> None:
    (up, _), (down, listener) = first, second
    log = watched(up, down)
    await log.grow()
    await log.follow(up, down)
    await log.publish()
    listener.shut()
    unseen = await log.grow()
    incomplete = await log.publish()
    assert cosigners(incomplete, up, down) == {up.name}
    assert await proven_by(scene, unseen) == {incomplete}
    assert await log.failing() == 1
    assert await log.waiting(SILENT) == []
    # It hangs now, and nothing waits for it: it is asked in the background only.
    await listener.open()
    down.replies.append(hang)
    asked = len(down.bodies)
    number = await log.grow()
    missed = await log.publish()
    assert cosigners(missed, up, down) == {up.name}
    assert len(down.bodies) == asked
    scene.clock.advance(hours=1)
    (place,) = await log.waiting(SILENT)
    assert down.name in place
    assert "unreachable" in place
    assert "its last cosignature: 2026-03-01 09:0" in place
    assert await log.waiting(ALARM) == []
    down.replies.clear()
    await log.witnesses.run_once()
    # What is served has the late cosignature, and so have new proofs, also of entries that other checkpoints cover.
    complete = await log.served()
    assert cosigners(complete, up, down) == {up.name, down.name}
    assert complete.startswith(missed)
    for each in (number, unseen):
        assert await proven_by(scene, each) == {complete}
    assert (await log.waiting(SILENT), await log.failing()) == ([], 0)
    await log.grow()
    assert cosigners(await log.publish(), up, down) == {up.name, down.name}
    assert not await log.witnesses.run_once()


async def test_a_witness_that_knows_a_larger_tree_is_an_alarm_at_once(
    scene: LogScene, first: tuple[Witness, Listener], watched: Watched
) -> None:
    witness = first[0]
    log = watched(witness)
    await log.grow()
    await log.follow(witness)
    await log.publish()
    origin = (await scene.log()).origin
    await log.grow()
    # The same key has signed more entries than the database has: it was restored, and the head file was lost, too.
    ahead = Checkpoint(origin, 1_000, bytes(32))
    size, root = witness.last_seen(origin)
    witness.remember(origin, ahead.size, ahead.root)
    assert cosigners(await log.publish(), witness) == set()
    (place,) = await log.waiting(ALARM)
    assert witness.name in place
    assert "larger_tree (it has seen 1000 entries, and this tree has" in place
    assert await log.waiting(SILENT) == []
    witness.remember(origin, size, root)
    scene.clock.advance(minutes=1)
    assert await log.witnesses.run_once()
    assert await log.waiting(ALARM) == []


async def test_witnesses_of_new_settings_are_asked_without_a_new_entry_and_former_ones_forgotten(
    scene: LogScene, first: tuple[Witness, Listener], second: tuple[Witness, Listener], watched: Watched
) -> None:
    (former, listener), (new, _) = first, second
    log = watched(former)
    await log.grow()
    listener.shut()
    await log.publish()
    log = watched(new)
    # It does not follow the log yet.
    assert await log.witnesses.run_once()
    assert cosigners(await log.served(), new) == set()
    await log.follow(new)
    assert not await log.witnesses.run_once()
    scene.clock.advance(seconds=10)
    assert await log.witnesses.run_once()
    assert cosigners(await log.served(), new) == {new.name}
    await log.grow()
    await log.publish()
    assert await scene.fetchval("SELECT array_agg(vkey) FROM log_witnesses") == [new.vkey]


async def test_a_proof_is_against_the_cosigned_checkpoint_that_verifiers_accept(
    scene: LogScene, first: tuple[Witness, Listener], watched: Watched
) -> None:
    witness, listener = first
    log = watched(witness)
    number = await log.grow()
    await log.follow(witness)
    listener.shut()
    alone = await log.publish()
    assert await proven_by(scene, number) == {alone}
    await log.grow()
    await log.publish()
    assert await proven_by(scene, number) == {alone}
    await listener.open()
    scene.clock.advance(minutes=1)
    await log.witnesses.run_once()
    cosigned = await log.served()
    assert cosigners(cosigned, witness) == {witness.name}
    assert await proven_by(scene, number) == {cosigned}
    # One that comes later than verifiers accept is better than none, and not better than one in time.
    late = "UPDATE log_checkpoints SET published_at = published_at + interval '2 days' WHERE note = $1"
    await scene.execute(late, cosigned)
    assert await proven_by(scene, number) == {cosigned}
    await scene.execute("UPDATE log_checkpoints SET cosignatures = 1 WHERE note = $1", alone)
    assert await proven_by(scene, number) == {alone}


async def test_a_worker_that_stops_before_a_checkpoint_is_stored_asks_the_witnesses_again(
    scene: LogScene, first: tuple[Witness, Listener], watched: Watched
) -> None:
    log = watched(first[0])
    await log.grow()
    await log.follow(first[0])
    cosign = log.witnesses.cosign

    async def stop(log_id: int, note: str) -> str:
        await cosign(log_id, note)
        raise OSError

    stopping = PublishCheckpoints(scene.database, scene.clock, scene.services.settings, scene.keys, stop)
    scene.clock.advance(seconds=10)
    assert not await stopping.run_once()
    assert cosigners(await log.publish(), first[0]) == {first[0].name}
