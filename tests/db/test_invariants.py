"""Each invariant, broken on purpose: the doctor must see it, and see nothing when all is well."""

import pytest

from tests.db.ordering import place, receive
from tests.world import START, World
from tonne.app import Services
from tonne.base.clock import utc_now
from tonne.base.scope import Scope
from tonne.cards.invariants import INVARIANTS as PAYMENTS
from tonne.checkout.invariants import INVARIANTS as CHECKOUTS
from tonne.cli.doctor import ALL_INVARIANTS, examine
from tonne.db.pool import Database
from tonne.invoices.invariants import INVARIANTS as INVOICES
from tonne.retirements.invariants import INVARIANTS as RETIREMENTS

# The statements that break each invariant, and what else is then not true any more.
POSITIONS = "stream positions are 1 to n without a gap"
IN_A_STREAM = "every event is in a stream"
SEQUENCES = "sequences rise strictly within an account"
WALKS = "an order's events walk the transition table"
LAST_EVENT = "an order's last event matches its status"
SUMS = "lines sum to their order, in grams and in money"
SHOWN = "an order is shown as it is stored"
OVERLAPS = "no serial number is in two lots"
ALLOCATED = "a lot never gives more than it has"
UNSEEN = "a webhook's cursor passes no event unseen"
AHEAD = "no webhook is ahead of its stream"
# Broken on purpose in the tests of their own rooms.
ELSEWHERE = {invariant.name for invariant in (*PAYMENTS, *INVOICES, *CHECKOUTS, *RETIREMENTS)}
TAKEN = "a lot is what is free and what was taken of it"

_DROP_ALLOCATED_CHECK = """
DO $$ BEGIN
    EXECUTE (SELECT format('ALTER TABLE lots DROP CONSTRAINT %I', conname) FROM pg_constraint
             WHERE conrelid = 'lots'::regclass AND contype = 'c'
               AND pg_get_constraintdef(oid) LIKE '%allocated_grams%');
END $$
"""
_COPY_SERIALS = """
UPDATE lots SET (serial_block, first_number, last_number) =
                (SELECT serial_block, first_number, last_number FROM lots ORDER BY id LIMIT 1)
"""
_FOREIGN_EVENT = """
INSERT INTO events (organisation_id, mode, position, id, account_id, subject_id, event_type, sequence, payload)
VALUES ('org_gone', 'test', 1, 'evt_1', 'acc_gone', 'x', 'other.thing', now(), '{}')
"""
_WEBHOOK_AT_THE_END = """
INSERT INTO webhooks (organisation_id, mode, id, url, created_at, secret_box, secret_last_four, cursor_position,
                      next_attempt_at)
SELECT organisation_id, mode, 'wh_1', 'https://receiver.example', now(), '', 'abcd', last_position, now()
FROM event_streams WHERE last_position > 0
"""
_FOR_ALL_ACCOUNTS = """
INSERT INTO webhook_scopes (organisation_id, webhook_id, from_position, account_ids)
SELECT organisation_id, id, 0, '{}' FROM webhooks
"""


def _shown_instead(old: str, new: str) -> str:
    replaced = f"replace(convert_from(wire_document, 'UTF8'), '{old}', '{new}')"
    return f"UPDATE orders SET wire_document = convert_to({replaced}, 'UTF8')"  # noqa: S608 - constants of this file


BREACHES: list[tuple[str, list[str], set[str]]] = [
    (POSITIONS, ["DELETE FROM events WHERE position = 2"], {LAST_EVENT}),
    (POSITIONS, ["DELETE FROM events WHERE position = 1"], {WALKS}),
    (POSITIONS, ["UPDATE event_streams SET last_position = last_position + 1 WHERE last_position > 0"], set()),
    (POSITIONS, ["UPDATE event_streams SET last_position = 7 WHERE last_position = 0"], set()),
    (IN_A_STREAM, [_FOREIGN_EVENT], set()),
    (SEQUENCES, ["UPDATE events SET sequence = sequence + interval '1 ms' WHERE position = 1"], set()),
    (SEQUENCES, ["UPDATE events SET sequence = sequence - interval '1 day' WHERE position = 2"], set()),
    (WALKS, ["UPDATE events SET event_type = 'order.paid' WHERE position = 1"], set()),
    (WALKS, ["UPDATE events SET event_type = 'order.invented' WHERE position = 1"], set()),
    (LAST_EVENT, ["UPDATE events SET event_type = 'order.failed' WHERE position = 2"], set()),
    (LAST_EVENT, ["UPDATE orders SET status = 'paid' WHERE status = 'placed'"], {SHOWN}),
    (SUMS, ["UPDATE order_lines SET quantity_grams = quantity_grams + 1 WHERE position = 1"], set()),
    (SUMS, ["UPDATE order_lines SET offset_cost_minor = offset_cost_minor + 1 WHERE position = 1"], set()),
    (SUMS, ["DELETE FROM order_lines"], set()),
    (SHOWN, [_shown_instead('"placed"', '"paid"')], set()),
    (SHOWN, [_shown_instead('{"n":1}', '{"n":2}')], set()),
    (SHOWN, [_shown_instead('"id":"ord_', '"id":"ord_x')], set()),
    (OVERLAPS, ["ALTER TABLE lots DROP CONSTRAINT lots_never_overlap", _COPY_SERIALS], set()),
    (ALLOCATED, [_DROP_ALLOCATED_CHECK, "UPDATE lots SET allocated_grams = quantity_grams + 1"], {TAKEN}),
    (ALLOCATED, [_DROP_ALLOCATED_CHECK, "UPDATE lots SET allocated_grams = -1"], {TAKEN}),
    (UNSEEN, [_WEBHOOK_AT_THE_END, _FOR_ALL_ACCOUNTS], set()),
    (AHEAD, [_WEBHOOK_AT_THE_END, "UPDATE webhooks SET cursor_position = cursor_position + 1"], set()),
]


async def _examine(db: Database) -> dict[str, list[str]]:
    async with db.transaction() as tx:
        return await examine(tx)


async def _break(db: Database, *statements: str) -> None:
    async with db.transaction() as tx:
        for statement in statements:
            await tx.execute(statement)


def test_every_invariant_is_broken_at_least_once() -> None:
    assert {name for name, _, _ in BREACHES} | ELSEWHERE == {invariant.name for invariant in ALL_INVARIANTS}
    assert len(ALL_INVARIANTS) == len({invariant.name for invariant in ALL_INVARIANTS})


@pytest.mark.parametrize(("name", "statements", "also"), BREACHES)
async def test_a_breach_is_seen_and_its_place_named(
    services: Services, world: World, name: str, statements: list[str], also: set[str]
) -> None:
    order = await place(services, world.ours_test.scope, utc_now(), metadata='{"n":1}')
    assert await _examine(services.database) == {}
    await _break(services.database, *statements)
    breaches = await _examine(services.database)
    assert set(breaches) == {name} | also
    assert all(place and "None" not in place for places in breaches.values() for place in places)
    if name in {WALKS, LAST_EVENT, SUMS, SHOWN}:
        assert order.id in breaches[name][0]
        assert order.scope.account_id in breaches[name][0]


async def test_an_order_without_any_event_is_seen(services: Services, world: World) -> None:
    await receive(services, world.ours_test.scope, START)
    await _break(services.database, "DELETE FROM events", "UPDATE event_streams SET last_position = 0")
    assert set(await _examine(services.database)) == {LAST_EVENT}


async def test_a_doubled_event_is_seen(services: Services, world: World) -> None:
    await receive(services, world.ours_test.scope, START)
    await _break(
        services.database,
        """
        INSERT INTO events (organisation_id, mode, position, id, account_id, subject_id, event_type, sequence, payload)
        SELECT organisation_id, mode, position + 1, id || 'x', account_id, subject_id, event_type,
               sequence + interval '1 ms', payload FROM events
        """,
        "UPDATE event_streams SET last_position = 2 WHERE last_position = 1",
    )
    assert set(await _examine(services.database)) == {WALKS}


async def test_hostile_text_in_orders_does_not_upset_the_doctor(services: Services, world: World) -> None:
    for i, metadata in enumerate(
        ['{"a":"\\"\\\\"}', '{"%s":"\'; DROP TABLE orders; --"}', '{"é🌍":1e400,"b" : [ 1.0 ]}']
    ):
        await receive(services, world.ours_test.scope, START, metadata=metadata, key=f"k'{i}\"%s\\ é")
    assert await _examine(services.database) == {}


async def test_the_doctor_cannot_write(services: Services) -> None:
    async with services.database.transaction() as tx:
        await examine(tx)
        assert await tx.fetchval("SHOW transaction_read_only") == "on"


async def test_an_empty_database_is_healthy(db: Database) -> None:
    assert await _examine(db) == {}


async def test_the_same_key_of_two_accounts_is_no_breach(services: Services, world: World) -> None:
    scope = world.ours_test.scope
    client = Scope(scope.organisation_id, world.ours_test.client_account_id, scope.mode)
    for holder in (scope, client, world.ours_live.scope, world.theirs_test.scope):
        await receive(services, holder, START, key="same")
    assert await _examine(services.database) == {}
