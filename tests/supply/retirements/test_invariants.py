"""`tonne doctor` finds and locates every violation of the invariants of supply and retirement."""

from tests.supply.retirements.shop import Shop
from tests.support.plain_documents import store_plainly
from tests.support.postgres import undone
from tonne.apps.cli.operations.doctor import find_breaches
from tonne.supply.retirements.invariants import INVARIANTS

OVERLAPS = "no serial number is in two lots"
ALLOCATED = "no lot is over-allocated"
TAKEN = "a lot's parcels add up to its allocated grams"
ADDED_UP = "every gram of a lot is free, allocated, retired or invalid"
INVALID = "nothing is supplied from invalid lots"
DEALT_WITH = "orders that hold credits of an invalid lot are dealt with"
GRAMS = "every gram of a parcel belongs to one order line"
UNITS = "parcels consist of whole units"
BOUGHT = "an order's projects and shares add up to its lines"
COMPLETE = "every complete order is fully retired and has one current certificate"
REPLACED = "a complete order without a valid certificate is being replaced, or its certificate was withdrawn for good"
CHAIN = "replaced certificates lead to the current one"
CERTIFIED = "a certificate's lines match its order's retirements"
VINTAGES = "retired vintages match the valid certificates"
TOTALS = "retired totals match the complete orders"
PROJECTS = "a project of an order is retired when its last parcel is"
SHOWN = "an order's JSON shows which of its projects are retired"
MATCHING = "an order's JSON matches its columns"
HELD_FREE = "held grams are free"
SERIALS = "a lot is what its serial says"
LOGGED = "every retirement and certificate event has a statement for the log, and no statement has no event"

_OVER_ALLOCATE = """
DO $$ BEGIN
    EXECUTE (SELECT format('ALTER TABLE lots DROP CONSTRAINT %I', conname) FROM pg_constraint
             WHERE conrelid = 'lots'::regclass AND contype = 'c'
               AND pg_get_constraintdef(oid) LIKE '%allocated_grams%');
END $$;
UPDATE lots SET allocated_grams = quantity_grams + 1
"""
_OPEN_CASE = """
INSERT INTO lot_cases (mode, lot_id, account_id, order_id, organisation_id, quantity_grams, state, opened_at)
SELECT parcel.mode, parcel.lot_id, share.account_id, share.order_id, share.organisation_id, 1, 'undecided', now()
FROM parcels parcel JOIN shares share ON share.parcel_id = parcel.id LIMIT 1
"""
_OTHER_UNITS = """
ALTER TABLE projects DROP CONSTRAINT projects_granularity_grams_check;
UPDATE projects SET granularity_grams = 3000000 WHERE registry_project_id = 'B'
"""
_COPY_SERIALS = """
ALTER TABLE lots DROP CONSTRAINT lots_never_overlap;
UPDATE lots SET (serial_block, first_number, last_number, unit_grams, quantity_grams) =
                (SELECT serial_block, first_number, last_number, unit_grams, quantity_grams
                 FROM lots WHERE allocated_grams = 0 ORDER BY id LIMIT 1)
WHERE allocated_grams = 0
"""


def _certified(old: str, new: str) -> str:
    replaced = f"replace(convert_from(record, 'UTF8'), '{old}', '{new}')"
    return f"UPDATE certificates SET record = convert_to({replaced}, 'UTF8')"  # noqa: S608 - constants of this file


def _shown(old: str, new: str) -> str:
    replaced = f"replace(convert_from(wire_document, 'UTF8'), '{old}', '{new}')"
    return f"UPDATE orders SET wire_document = convert_to({replaced}, 'UTF8')"  # noqa: S608 - constants of this file


def _hold(grams: int, expires_at: str) -> str:
    return f"""
    INSERT INTO supply_holds (account_id, checkout_id, bundle_id, project_id, organisation_id, mode, kind, trust,
                              client_hash, quantity_grams, reserved_grams, charges_before, expires_at)
    SELECT 'acc_1', 'chk_1', 'bun_1', id, 'org_1', mode, 'checkout', 'anonymous', sha256(''), {grams}, {grams}, 0,
           {expires_at}
    FROM projects WHERE registry_project_id = 'A'
    """  # noqa: S608 - constants of this file


# The invariant, the statement that violates it, and the other invariants that it violates.
VIOLATIONS: list[tuple[str, str, set[str]]] = [
    (OVERLAPS, _COPY_SERIALS, {SERIALS}),
    (SERIALS, "UPDATE lots SET serial = '?' WHERE mode = 'test'", set()),
    (SERIALS, "UPDATE lots SET serial = replace(serial, '-VER-ET-', '-VER-KE-')", set()),
    (ALLOCATED, _OVER_ALLOCATE, {TAKEN, ADDED_UP}),
    (ALLOCATED, _OVER_ALLOCATE.replace("quantity_grams + 1", "-1"), {TAKEN, ADDED_UP}),
    (TAKEN, "UPDATE lots SET allocated_grams = allocated_grams - 1000000 WHERE allocated_grams > 0", {ADDED_UP}),
    (ADDED_UP, "UPDATE lots SET allocated_grams = 1000000 WHERE allocated_grams = 0", {TAKEN}),
    (INVALID, "UPDATE parcels SET invalidated_at = now()", {DEALT_WITH}),
    (DEALT_WITH, _OPEN_CASE, set()),
    # Two parcels that overlap, with a gap before them: their sum and their end are what they were.
    (TAKEN, "UPDATE parcels SET start_grams = 1000000 WHERE start_grams = 0 AND quantity_grams = 2000000", {CERTIFIED}),
    (TAKEN, "UPDATE parcels SET start_grams = start_grams + 5000000 WHERE start_grams > 0", {CERTIFIED}),
    (GRAMS, "UPDATE parcels SET allocated_grams = allocated_grams - 1 WHERE allocated_grams > 1", set()),
    (GRAMS, "UPDATE shares SET quantity_grams = quantity_grams + 1", {BOUGHT, CERTIFIED, VINTAGES}),
    (GRAMS, "DELETE FROM shares", {BOUGHT, CERTIFIED, PROJECTS, VINTAGES}),
    (UNITS, _OTHER_UNITS, {SERIALS}),
    (BOUGHT, "UPDATE order_projects SET quantity_grams = quantity_grams + 1", {TOTALS}),
    (BOUGHT, "UPDATE order_projects SET offset_cost_minor = offset_cost_minor + 1", set()),
    (BOUGHT, "DELETE FROM order_projects", {TOTALS, SHOWN}),
    (SHOWN, "UPDATE orders SET wire_document = substr(wire_document, 1, 100)", {MATCHING}),
    (COMPLETE, "DELETE FROM certificates", {TOTALS, VINTAGES, LOGGED}),
    (CHAIN, "UPDATE certificates SET replaces = number", set()),
    (
        COMPLETE,
        "UPDATE parcels SET status = 'to_retire', retired_on = NULL WHERE status = 'retired'",
        {CERTIFIED, PROJECTS, LOGGED},
    ),
    (CERTIFIED, _certified('"quantity":"0.3"', '"quantity":"0.4"'), set()),
    (CERTIFIED, _certified("live-A-1 101–102", "live-A-1 101–103"), set()),
    (CERTIFIED, _certified("live-A-1 103", "live-A-9 103"), set()),
    (CERTIFIED, _certified("2025-05-06", "2025-05-07"), set()),
    (CERTIFIED, _certified("registry.example/r", "registry.example/s"), set()),
    (CERTIFIED, _certified('"vintage":"2020"', '"vintage":"2021"'), set()),
    (CERTIFIED, _certified('"lines":[', '"lines":[],"old":['), set()),
    (REPLACED, "UPDATE orders SET certificate_due_on = '2026-03-09' WHERE status = 'complete'", set()),
    (PROJECTS, "UPDATE order_projects SET status = 'retired'", {SHOWN}),
    (PROJECTS, "UPDATE order_projects SET status = 'allocated'", {SHOWN}),
    (SHOWN, _shown('"status":"allocated"', '"status":"retired"'), set()),
    (SHOWN, _shown(',"status":"retired"', ""), set()),
    (TOTALS, "UPDATE retired_totals SET grams = 2 * grams", set()),
    (TOTALS, "DELETE FROM retired_totals", set()),
    (TOTALS, "UPDATE retired_totals SET month = month + interval '1 month'", set()),
    (TOTALS, "UPDATE retired_totals SET bundle_id = 'bun_other'", set()),
    (VINTAGES, "UPDATE retired_vintages SET grams = grams + 1", set()),
    (HELD_FREE, _hold(8_000_000, "now() + interval '5 minutes'"), set()),
]


def test_every_invariant_is_violated_in_a_test() -> None:
    assert {name for name, _, _ in VIOLATIONS} == {invariant.name for invariant in INVARIANTS}


async def test_a_violation_is_found_and_located(live: Shop) -> None:
    await live.sell("ready", {"A": 1})
    await live.supply("A", 2020, 10, retired=True)
    await live.sell("later", {"B": 1})
    await live.supply("B", 2020, 10)
    ada = await live.account("Ada")
    orders = [await live.buy(ada, 2_300_000, "ready"), await live.buy(ada, 1_400_000, "later")]
    await live.work()
    assert await live.statuses(*orders) == ["complete", "retiring"]
    await live.check_invariants()
    for name, statement, also in VIOLATIONS:
        async with undone(live.services.database) as tx:
            await store_plainly(tx)
            await tx.execute(statement)
            violations = await find_breaches(tx)
        assert set(violations) == {name} | also, statement
        named = "".join(place for places in violations.values() for place in places)
        assert named, statement
        assert "None" not in named, statement
