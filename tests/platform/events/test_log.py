"""The event log with one writer: positions, sequences and payloads."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import asyncpg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support.clock import START
from tests.support.events import StoredEvent, stored_events
from tests.support.orders import place
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.events.log import NewEvent, append, open_stream
from tonne.platform.values.context import Mode, Scope, is_id, to_wire

OURS = Scope("org_a", "acc_a", Mode.TEST)
MILLISECOND = timedelta(milliseconds=1)


def _event(document: str = "{}", event_type: str = "order.placed") -> NewEvent:
    return NewEvent(event_type, "ord_1", document.encode())


async def _open(db: Database, *scopes: Scope) -> None:
    async with db.transaction() as tx:
        for scope in scopes:
            await open_stream(tx, scope.organisation_id, scope.mode)


async def _append(db: Database, events: Sequence[NewEvent], now: datetime, scope: Scope = OURS) -> None:
    async with db.transaction() as tx:
        await append(tx, scope, events, now)


async def _rows(db: Database, scope: Scope = OURS) -> list[StoredEvent]:
    async with db.connection() as connection:
        events = await stored_events(connection)
    return [row for row in events if (row.organisation_id, row.mode) == (scope.organisation_id, scope.mode)]


def _read(row: StoredEvent) -> dict[str, Any]:
    return row.content


async def test_positions_count_from_one_and_the_first_sequence_is_the_time(db: Database) -> None:
    await _open(db, OURS)
    await _append(db, [_event()], START)
    await _append(db, [_event()], START + timedelta(seconds=1))
    rows = await _rows(db)
    assert [row.position for row in rows] == [1, 2]
    assert [row.sequence for row in rows] == [START, START + timedelta(seconds=1)]


async def test_several_events_of_one_append_keep_their_order_and_are_a_millisecond_apart(db: Database) -> None:
    await _open(db, OURS)
    await _append(db, [_event(f'{{"n":{n}}}', f"order.{n}") for n in range(5)], START)
    await _append(db, [_event(event_type="order.5")], START)
    rows = await _rows(db)
    assert [row.position for row in rows] == [1, 2, 3, 4, 5, 6]
    assert [row.event_type for row in rows] == [f"order.{n}" for n in range(6)]
    assert [row.sequence for row in rows] == [START + n * MILLISECOND for n in range(6)]
    assert [_read(row)["data"] for row in rows[:5]] == [{"order": {"n": n}} for n in range(5)]


async def test_sequences_increase_while_the_clock_stands_still(db: Database) -> None:
    await _open(db, OURS)
    for _ in range(5):
        await _append(db, [_event()], START)
    assert [row.sequence for row in await _rows(db)] == [START + n * MILLISECOND for n in range(5)]


async def test_sequences_increase_when_the_clock_jumps_back_and_follow_it_again_later(db: Database) -> None:
    await _open(db, OURS)
    jumps = [timedelta(), timedelta(hours=-3), timedelta(days=-400), timedelta(seconds=1), timedelta(milliseconds=1)]
    for jump in jumps:
        await _append(db, [_event()], START + jump)
    sequences = [row.sequence - START for row in await _rows(db)]
    assert sequences == [
        timedelta(),
        MILLISECOND,
        2 * MILLISECOND,
        timedelta(seconds=1),
        timedelta(seconds=1) + MILLISECOND,
    ]


async def test_a_clock_that_ticks_finer_than_a_millisecond_still_gives_rising_texts(db: Database) -> None:
    await _open(db, OURS)
    for microseconds in (100, 101, 1099, 1100, 2600, 2599):
        await _append(db, [_event(), _event()], START + timedelta(microseconds=microseconds))
    texts = [_read(row)["sequence"] for row in await _rows(db)]
    assert texts == sorted(set(texts))


async def test_appending_nothing_leaves_no_gap(db: Database) -> None:
    await _open(db, OURS)
    await _append(db, [_event()], START)
    await _append(db, [], START + timedelta(hours=1))
    await _append(db, [_event()], START + timedelta(minutes=1))
    rows = await _rows(db)
    assert [row.position for row in rows] == [1, 2]
    assert rows[0].sequence < rows[1].sequence


async def test_a_rolled_back_append_leaves_no_gap(db: Database) -> None:
    await _open(db, OURS)
    await _append(db, [_event()], START)
    with pytest.raises(asyncpg.DivisionByZeroError):  # noqa: PT012 - the append succeeds, what follows it fails
        async with db.transaction() as tx:
            await append(tx, OURS, [_event(), _event()], START)
            await tx.execute("SELECT 1 / 0")
    await _append(db, [_event()], START)
    assert [row.position for row in await _rows(db)] == [1, 2]


async def test_streams_have_separate_counters(db: Database) -> None:
    scopes = [Scope(org, f"acc_{org}", mode) for org in ("org_a", "org_b") for mode in Mode]
    await _open(db, *scopes)
    for n, scope in enumerate(scopes, start=1):
        await _append(db, [_event()] * n, START, scope)
    for n, scope in enumerate(scopes, start=1):
        assert [row.position for row in await _rows(db, scope)] == list(range(1, n + 1))


async def test_accounts_of_one_organisation_share_its_stream(db: Database) -> None:
    await _open(db, OURS)
    client = Scope(OURS.organisation_id, "acc_client", OURS.mode)
    for scope in (OURS, client, OURS):
        await _append(db, [_event()], START, scope)
    rows = await _rows(db)
    assert [(row.position, row.account_id) for row in rows] == [(1, "acc_a"), (2, "acc_client"), (3, "acc_a")]
    assert [_read(row)["account_id"] for row in rows] == ["acc_a", "acc_client", "acc_a"]


@pytest.mark.parametrize("scope", [Scope("org_a", "acc_a", Mode.LIVE), Scope("org_x", "acc_a", Mode.TEST)])
async def test_appending_without_a_stream_raises_and_writes_nothing(db: Database, scope: Scope) -> None:
    await _open(db, OURS)
    with pytest.raises(LookupError, match=scope.organisation_id):
        await _append(db, [_event()], START, scope)
    assert await _rows(db, scope) == []


async def test_the_payload_has_exactly_the_keys_of_the_interface(db: Database) -> None:
    await _open(db, OURS)
    await _append(db, [_event('{"id":"ord_1","status":"placed"}')], datetime(2026, 11, 15, 10, 0, 0, 123_000, UTC))
    [row] = await _rows(db)
    payload = _read(row)
    assert is_id("evt", payload["event_id"])
    assert payload == {
        "api_version": "v1",
        "event_id": row.id,
        "account_id": "acc_a",
        "event_type": "order.placed",
        "sequence": "2026-11-15T10:00:00.123Z",
        "data": {"order": {"id": "ord_1", "status": "placed"}},
    }


async def test_the_order_in_an_event_is_its_document_at_that_time(services: Services, world: World) -> None:
    order = await place(services, world.ours_test.scope, START, metadata='{"b":1.10,"a":[ ],"é":"\\u00e9"}')
    received, placed = await _rows(services.database, order.scope)
    async with services.database.connection() as connection:
        document = await connection.fetchval("SELECT wire_document FROM orders WHERE id = $1", order.id)
    assert placed.payload.endswith(b'"data":{"order":%b}}' % document)
    assert (_read(received)["data"]["order"]["status"], received.event_type) == ("received", "order.received")
    assert (_read(placed)["data"]["order"]["status"], placed.event_type) == ("placed", "order.placed")
    assert _read(received)["data"]["order"]["bundles"] == []
    assert set(_read(received)["data"]["order"]) == set(_read(placed)["data"]["order"]) == set(json.loads(document))
    assert [row.subject_id for row in (received, placed)] == [order.id, order.id]
    assert [_read(row)["sequence"] for row in (received, placed)] == [to_wire(START), to_wire(START + MILLISECOND)]


_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\x00"))
_HOSTILE = [
    "'; DROP TABLE events; --",
    '"}}',
    "\\",
    "%s %1$s {0} {}",
    "\u2028\u202e",
    "𝔘🌍",
    "$1",
    "\x7f\x1b[31m",
    "</script>",
]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(documents=st.lists(st.dictionaries(_TEXT, _TEXT | st.sampled_from(_HOSTILE)), min_size=1, max_size=4))
async def test_hostile_text_in_a_document_arrives_unchanged(db: Database, documents: list[dict[str, str]]) -> None:
    scope = Scope(f"org_{id(documents)}", "acc_a", Mode.TEST)
    async with db.transaction() as tx:
        await tx.execute("DELETE FROM events")
        await tx.execute("DELETE FROM event_streams")
        await open_stream(tx, scope.organisation_id, scope.mode)
    for as_ascii in (True, False):
        texts = [json.dumps(document, ensure_ascii=as_ascii) for document in documents]
        await _append(db, [_event(text) for text in texts], START, scope)
    rows = await _rows(db, scope)
    assert [_read(row)["data"]["order"] for row in rows] == documents * 2
