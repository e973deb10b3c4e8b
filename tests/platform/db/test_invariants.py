"""`tonne doctor` finds every violated invariant, and none in healthy data."""

from tests.support.clock import START
from tests.support.orders import place, receive
from tests.support.postgres import undone
from tests.support.world import World
from tonne.apps.cli.operations.doctor import ALL_INVARIANTS, examine, find_breaches
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.invariants import INVARIANTS as CHECKOUTS
from tonne.money.accounting.journal.invariants import INVARIANTS as JOURNAL
from tonne.money.accounting.matching.invariants import INVARIANTS as MATCHES
from tonne.money.bank.invariants import INVARIANTS as TRANSFERS
from tonne.money.cards.invariants import INVARIANTS as PAYMENTS
from tonne.money.invoices.invariants import INVARIANTS as INVOICES
from tonne.money.invoices.originals.invariants import INVARIANTS as ORIGINALS
from tonne.money.refunds.card_invoice_invariants import INVARIANTS as CARD_INVOICES
from tonne.money.refunds.invariants import INVARIANTS as REFUNDS
from tonne.platform.db.database import Database
from tonne.platform.values.context import Scope, utc_now
from tonne.selling.users.invariants import INVARIANTS as GUARDED
from tonne.supply.certificates.credentials.invariants import INVARIANTS as CREDENTIALS
from tonne.supply.certificates.proofs.log_invariants import INVARIANTS as LOG
from tonne.supply.registries.invariants import INVARIANTS as REGISTRIES
from tonne.supply.retirements.invariants import INVARIANTS as RETIREMENTS
from tonne.supply.stock.holds.quote_invariants import INVARIANTS as QUOTES

# The names of the invariants.
POSITIONS = "stream positions have no gap"
IN_A_STREAM = "every event belongs to a stream"
SEQUENCES = "sequences increase strictly within an account"
TRANSITIONS = "an order's events follow the transition table"
LAST_EVENT = "an order's last event matches its status"
SUMS = "lines sum to their order, in grams and in money"
DOCUMENT = "an order's JSON matches its columns"
TOTALS = "the totals of orders match the orders"
ACCOUNT_TOTALS = "the totals of accounts match the orders"
BUNDLE_TOTALS = "the totals of bundles and projects match the orders"
METADATA_TOTALS = "the totals of metadata match the orders"
ESTIMATE_COUNTS = "the numbers of estimates match the estimates"
SKIPPED = "no webhook cursor skips an event"
AHEAD = "no webhook is ahead of its stream"
RECORDED = "streams record the types of events that webhooks name"
REMOVED = "no webhook waits for removed events"
IDS = "no two events have the same id"
# Violated in the tests of their own packages.
ELSEWHERE = {
    invariant.name
    for invariant in (
        *(*LOG, *PAYMENTS, *INVOICES, *CARD_INVOICES, *REFUNDS, *CHECKOUTS, *RETIREMENTS, *QUOTES, *JOURNAL),
        *(*GUARDED, *CREDENTIALS, *TRANSFERS, *MATCHES, *REGISTRIES, *ORIGINALS),
    )
}

_FOREIGN_EVENT = """
INSERT INTO events (organisation_id, mode, position, id, account_id, subject_id, event_type, sequence, document)
VALUES ('org_gone', 'test', 1, 'evt_1', 'acc_gone', 'x', 'other.thing', now(), '{}')
"""
# Into another partition, where the primary key does not prevent it.
_EVENT_TWICE = """
INSERT INTO events (organisation_id, mode, position, id, account_id, subject_id, event_type, sequence, document)
SELECT organisation_id, mode, {position}, {id}, account_id, 'x', 'other.thing', sequence + interval '50 years', document
FROM events WHERE position = 1
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


def _replace_in_document(old: str, new: str) -> str:
    replaced = f"replace(convert_from(wire_document, 'UTF8'), '{old}', '{new}')"
    return f"UPDATE orders SET wire_document = convert_to({replaced}, 'UTF8')"  # noqa: S608 - constants of this file


_NAMED_KEY = """
INSERT INTO metadata_keys (account_id, key, organisation_id, mode, created_at, is_complete)
SELECT id, 'n', organisation_id, mode, now(), true FROM accounts WHERE id IN (SELECT account_id FROM orders)
"""
# The invariant, the statements that violate it, and the other invariants that they violate.
VIOLATIONS: list[tuple[str, list[str], set[str]]] = [
    (POSITIONS, ["DELETE FROM events WHERE position = 2"], {LAST_EVENT}),
    (POSITIONS, ["DELETE FROM events WHERE position = 1"], {TRANSITIONS}),
    (POSITIONS, ["UPDATE event_streams SET last_position = last_position + 1 WHERE last_position > 0"], set()),
    (POSITIONS, ["UPDATE event_streams SET last_position = 7 WHERE last_position = 0"], set()),
    (POSITIONS, [_EVENT_TWICE.format(position=1, id="'evt_x'")], {SEQUENCES}),
    (
        IDS,
        [
            _EVENT_TWICE.format(position=3, id="id"),
            "UPDATE event_streams SET last_position = 3 WHERE last_position = 2",
        ],
        set(),
    ),
    (IN_A_STREAM, [_FOREIGN_EVENT], set()),
    (SEQUENCES, ["UPDATE events SET sequence = sequence + interval '1 ms' WHERE position = 1"], set()),
    (SEQUENCES, ["UPDATE events SET sequence = sequence - interval '1 day' WHERE position = 2"], set()),
    (TRANSITIONS, ["UPDATE events SET event_type = 'order.paid' WHERE position = 1"], set()),
    (TRANSITIONS, ["UPDATE events SET event_type = 'order.invented' WHERE position = 1"], set()),
    (LAST_EVENT, ["UPDATE events SET event_type = 'order.failed' WHERE position = 2"], set()),
    (LAST_EVENT, ["UPDATE orders SET status = 'paid' WHERE status = 'placed'"], {DOCUMENT}),
    (SUMS, ["UPDATE order_lines SET quantity_grams = quantity_grams + 1 WHERE position = 1"], set()),
    (SUMS, ["UPDATE order_lines SET offset_cost_minor = offset_cost_minor + 1 WHERE position = 1"], set()),
    (SUMS, ["DELETE FROM order_lines"], set()),
    (DOCUMENT, [_replace_in_document('"placed"', '"paid"')], set()),
    (DOCUMENT, [_replace_in_document('{"n":1}', '{"n":2}')], set()),
    (DOCUMENT, [_replace_in_document('"id":"ord_', '"id":"ord_x')], set()),
    (TOTALS, ["DELETE FROM order_deltas"], set()),
    (TOTALS, ["UPDATE order_deltas SET grams = grams + 1"], {ACCOUNT_TOTALS}),
    (
        ACCOUNT_TOTALS,
        ["INSERT INTO account_totals VALUES ('acc_x', '2026-01-01', 'EUR', 'paid', 1, 1, 1, 1, 1, 0)"],
        set(),
    ),
    (
        BUNDLE_TOTALS,
        ["INSERT INTO bundle_totals VALUES ('acc_x', '2026-01-01', 'bun_x', '', 'EUR', 1, 1, 1, 1, 1)"],
        set(),
    ),
    (
        METADATA_TOTALS,
        [
            _NAMED_KEY,
            "DELETE FROM order_deltas",
            "UPDATE metadata_totals SET orders = orders + 1",
        ],
        {TOTALS},
    ),
    (ESTIMATE_COUNTS, ["INSERT INTO estimate_days VALUES ('acc_x', '2026-01-01', 1)"], set()),
    (SKIPPED, [_WEBHOOK_AT_THE_END, _FOR_ALL_ACCOUNTS], set()),
    (
        REMOVED,
        [
            _WEBHOOK_AT_THE_END,
            "UPDATE webhooks SET cursor_position = 0",
            "UPDATE event_streams SET floor_position = 1, floor_sequence = now() WHERE last_position > 0",
        ],
        set(),
    ),
    (AHEAD, [_WEBHOOK_AT_THE_END, "UPDATE webhooks SET cursor_position = cursor_position + 1"], set()),
    (RECORDED, ["UPDATE event_streams SET recorded_types = '{invoice.paid}'"], set()),
]


async def _examine(db: Database) -> dict[str, list[str]]:
    async with db.transaction() as tx:
        return await examine(tx)


async def _break(db: Database, *statements: str) -> None:
    async with db.transaction() as tx:
        for statement in statements:
            await tx.execute(statement)


def test_every_invariant_is_violated_in_a_test() -> None:
    assert {name for name, _, _ in VIOLATIONS} | ELSEWHERE == {invariant.name for invariant in ALL_INVARIANTS}
    assert len(ALL_INVARIANTS) == len({invariant.name for invariant in ALL_INVARIANTS})


async def test_a_violation_is_found_and_located(services: Services, world: World) -> None:
    order = await place(services, world.ours_test.scope, utc_now(), metadata='{"n":1}')
    assert await _examine(services.database) == {}
    for name, statements, also in VIOLATIONS:
        async with undone(services.database) as tx:
            for statement in statements:
                await tx.execute(statement)
            violations = await find_breaches(tx)
        assert set(violations) == {name} | also, statements
        places = [place for found in violations.values() for place in found]
        assert all(place and "None" not in place for place in places), statements
        if name in {TRANSITIONS, LAST_EVENT, SUMS, DOCUMENT}:
            assert order.id in violations[name][0]
            assert order.scope.account_id in violations[name][0]


async def test_an_order_without_events_is_found(services: Services, world: World) -> None:
    await receive(services, world.ours_test.scope, START)
    await _break(services.database, "DELETE FROM events", "UPDATE event_streams SET last_position = 0")
    assert set(await _examine(services.database)) == {LAST_EVENT}


async def test_a_duplicate_event_is_found(services: Services, world: World) -> None:
    await receive(services, world.ours_test.scope, START)
    await _break(
        services.database,
        """
        INSERT INTO events (organisation_id, mode, position, id, account_id, subject_id, event_type, sequence, document)
        SELECT organisation_id, mode, position + 1, id || 'x', account_id, subject_id, event_type,
               sequence + interval '1 ms', document FROM events
        """,
        "UPDATE event_streams SET last_position = 2 WHERE last_position = 1",
    )
    assert set(await _examine(services.database)) == {TRANSITIONS}


async def test_hostile_text_in_orders_does_not_break_the_queries(services: Services, world: World) -> None:
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


async def test_two_accounts_may_use_the_same_idempotency_key(services: Services, world: World) -> None:
    scope = world.ours_test.scope
    client = Scope(scope.organisation_id, world.ours_test.client_account_id, scope.mode)
    for holder in (scope, client, world.ours_live.scope, world.theirs_test.scope):
        await receive(services, holder, START, key="same")
    assert await _examine(services.database) == {}


_ATTEMPT = """
INSERT INTO webhook_attempts (organisation_id, webhook_id, id, at, positions, status, acknowledged, duration_ms)
SELECT organisation_id, id, $1::text, now(), $2::bigint[], 200, true, 1 FROM webhooks
"""


async def test_batches_with_and_without_gaps_are_acknowledged(services: Services, world: World) -> None:
    for _ in range(3):
        await place(services, world.ours_test.scope, utc_now())
    await _break(services.database, _WEBHOOK_AT_THE_END, _FOR_ALL_ACCOUNTS)
    missed = []
    for number, positions in enumerate([[1, 3], [4, 5], [2], [6]]):
        async with services.database.transaction() as tx:
            await tx.execute(_ATTEMPT, f"att_{number}", positions)
        found = (await _examine(services.database)).get(SKIPPED, [])
        missed.append(sorted(int(place.rsplit(" ", 1)[1]) for place in found))
    assert missed == [[2, 4, 5, 6], [2, 6], [6], []]
