"""The event log with concurrent writers: commit order, and no gaps for a reader with a cursor."""

import asyncio
import json
import os
import random
import time
from dataclasses import dataclass, field
from datetime import timedelta

import pytest

from tests.support.clock import START
from tests.support.events import stored_events
from tonne.apps.cli.operations.doctor import examine
from tonne.platform.db.database import Connection, Database
from tonne.platform.events.log import NewEvent, append, open_stream
from tonne.platform.events.payload import decode_document
from tonne.platform.values.context import Mode, Scope

WRITERS = 8
ROUNDS = 25


class _Aborted(Exception):
    """Rolls a transaction back."""


@dataclass(frozen=True)
class Committed:
    """A transaction of a writer: when it ran, and what it appended to which stream."""

    began_s: float
    ended_s: float
    documents: dict[Scope, list[str]]


@dataclass
class Reader:
    """Follows one stream by cursor, as a delivery does."""

    scope: Scope
    seen: list[tuple[int, str]] = field(default_factory=list)

    async def read(self, connection: Connection) -> None:
        rows = await connection.fetch(
            "SELECT position, document FROM events "
            "WHERE organisation_id = $1 AND mode = $2 AND position > $3 ORDER BY position LIMIT 7",
            self.scope.organisation_id,
            self.scope.mode,
            self.seen[-1][0] if self.seen else 0,
        )
        self.seen += [(row["position"], json.loads(decode_document(row["document"]))) for row in rows]


def _seed() -> int:
    seed = int(os.environ.get("EVENTS_SEED") or random.SystemRandom().getrandbits(32))
    print(f"EVENTS_SEED={seed}")  # noqa: T201 - shown when the test fails
    return seed


def _change_mind(rng: random.Random) -> None:
    if rng.random() < 0.2:
        raise _Aborted


async def _nap(tx: Connection, rng: random.Random) -> None:
    await tx.execute("SELECT pg_sleep($1)", rng.choice((0, 0, 0.001, 0.003, 0.006)))


async def _write(db: Database, rng: random.Random, scopes: list[Scope], name: str) -> Committed | None:
    """One transaction, sometimes slow before its appends, sometimes after, sometimes rolled back."""
    chosen = sorted(
        rng.sample(scopes, rng.randint(1, min(2, len(scopes)))), key=lambda scope: (scope.organisation_id, scope.mode)
    )
    documents = {scope: [f'"{name}.{n}"' for n in range(rng.randint(1, 3))] for scope in chosen}
    # Clocks of different processes disagree, and jump.
    now = START + timedelta(milliseconds=rng.randint(-50, 50))
    began_s = time.monotonic()
    try:
        async with db.transaction() as tx:
            await _nap(tx, rng)
            for scope, texts in documents.items():
                await append(tx, scope, [NewEvent("thing.happened", name, text.encode()) for text in texts], now)
            await _nap(tx, rng)
            _change_mind(rng)
    except _Aborted:
        return None
    return Committed(began_s, time.monotonic(), documents)


async def _storm(db: Database, scopes: list[Scope], readers: list[Reader]) -> list[Committed]:
    """Eight writers at once, each with its own seeded randomness, while the readers keep reading."""
    seed = _seed()
    barrier = asyncio.Barrier(WRITERS)
    writing = True

    async def writer(number: int) -> list[Committed]:
        rng = random.Random(seed + number)  # noqa: S311 - repeatable on purpose
        await barrier.wait()
        done = [await _write(db, rng, scopes, f"w{number}.{turn}") for turn in range(ROUNDS)]
        return [transaction for transaction in done if transaction is not None]

    async def follow(reader: Reader) -> None:
        async with db.connection() as connection:
            while writing:
                await reader.read(connection)
                await asyncio.sleep(0)

    following = [asyncio.create_task(follow(reader)) for reader in readers]
    done = await asyncio.gather(*(writer(number) for number in range(WRITERS)))
    writing = False
    await asyncio.gather(*following)
    async with db.connection() as connection:
        for reader in readers:
            # Read to the end: events may have been committed after the last read.
            before = -1
            while before != len(reader.seen):
                before = len(reader.seen)
                await reader.read(connection)
    return [transaction for transactions in done for transaction in transactions]


def _check_reader(reader: Reader, committed: list[Committed]) -> None:
    """The reader saw every committed event once, numbered without a gap, and each transaction's in one run."""
    written = [text.strip('"') for c in committed for text in c.documents.get(reader.scope, [])]
    assert [position for position, _ in reader.seen] == list(range(1, len(written) + 1))
    assert sorted(document for _, document in reader.seen) == sorted(written)
    place = {document: position for position, document in reader.seen}
    ours = [c for c in committed if reader.scope in c.documents]
    spans = []
    for transaction in ours:
        places = [place[text.strip('"')] for text in transaction.documents[reader.scope]]
        assert places == list(range(places[0], places[0] + len(places)))
        spans.append((transaction, places[0]))
    for earlier, earlier_place in spans:
        for later, later_place in spans:
            if earlier.ended_s < later.began_s:
                assert earlier_place < later_place, "one that had committed before the other began stands after it"


async def _check_stream(db: Database, scope: Scope) -> None:
    async with db.connection() as connection:
        events = await stored_events(connection)
    stream = (scope.organisation_id, scope.mode)
    texts = [event.content["sequence"] for event in events if (event.organisation_id, event.mode) == stream]
    assert texts == sorted(set(texts)), "sequences rise strictly, also as texts"
    async with db.transaction() as tx:
        assert await examine(tx) == {}


async def _open(db: Database, scopes: list[Scope]) -> None:
    async with db.transaction() as tx:
        for scope in scopes:
            await open_stream(tx, scope.organisation_id, scope.mode)


async def test_eight_writers_on_one_stream_lose_nothing_and_leave_no_gap(db: Database) -> None:
    scope = Scope("org_a", "acc_a", Mode.TEST)
    await _open(db, [scope])
    readers = [Reader(scope), Reader(scope)]
    committed = await _storm(db, [scope], readers)
    assert len(committed) < WRITERS * ROUNDS, "some were rolled back"
    for reader in readers:
        _check_reader(reader, committed)
    await _check_stream(db, scope)


async def test_eight_writers_on_several_streams_do_not_disturb_each_other(db: Database) -> None:
    scopes = [Scope(org, f"acc_{org}", mode) for org in ("org_a", "org_b") for mode in Mode]
    await _open(db, scopes)
    readers = [Reader(scope) for scope in scopes]
    committed = await _storm(db, scopes, readers)
    for reader in readers:
        _check_reader(reader, committed)
        await _check_stream(db, reader.scope)


async def test_a_slow_transaction_blocks_only_its_own_stream(db: Database) -> None:
    """Before its commit, writers of other streams proceed and those of its own stream wait."""
    slow, other = Scope("org_a", "acc_a", Mode.TEST), Scope("org_b", "acc_b", Mode.TEST)
    await _open(db, [slow, other])
    event = NewEvent("thing.happened", "ord_1", b"{}")
    async with db.transaction() as tx:
        await append(tx, slow, [event], START)
        async with db.transaction() as second:
            await append(second, other, [event], START)

        async def queue_up() -> None:
            async with db.transaction() as third:
                await append(third, slow, [event], START)

        waiting = asyncio.create_task(queue_up())
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(waiting), 0.2)
    await waiting
    reader = Reader(slow)
    async with db.connection() as connection:
        await reader.read(connection)
    assert [position for position, _ in reader.seen] == [1, 2]


async def test_nothing_before_the_append_is_locked_for_other_writers(db: Database) -> None:
    """The counter is locked last: a transaction that is slow before its append blocks no other."""
    scope = Scope("org_a", "acc_a", Mode.TEST)
    await _open(db, [scope])
    event = NewEvent("thing.happened", "ord_1", b'"late"')
    async with db.transaction() as slow:
        await slow.execute("SELECT count(*) FROM events")
        async with db.transaction() as quick:
            await append(quick, scope, [NewEvent("thing.happened", "ord_2", b'"early"')], START)
        await append(slow, scope, [event], START)
    reader = Reader(scope)
    async with db.connection() as connection:
        await reader.read(connection)
    assert reader.seen == [(1, "early"), (2, "late")]
