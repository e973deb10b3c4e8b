"""One transfer for several invoices, and one payment for several returns."""

from itertools import combinations

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tests.money.invoices.bank import ADA_IBAN, EVE_IBAN, OWN, Line, camt_file, csv_file
from tests.money.invoices.billing import Billing
from tests.money.invoices.test_transfers import ADA, DAY, bill, import_file, open_returns, states
from tests.support.command import Operator
from tests.support.world import World
from tonne.money.bank.export_returns import ReturnFile, export_returns
from tonne.money.bank.return_transfer import return_transfer, split_refund
from tonne.money.bank.transfer_model import BankReturn
from tonne.money.refunds.bank_refunds import fail_refund_return
from tonne.platform.values.context import Mode, new_id


async def test_a_transfer_is_split_over_several_invoices_by_one_command(
    billing: Billing, world: World, operator: Operator
) -> None:
    orders = await bill(billing, world, 2)
    text = "TN-LIVE-000002, TN-LIVE-000001"
    [booked] = await import_file(billing, csv_file([Line(DAY, 2788, text)]))
    assert booked.outcome == "unmatched"
    found = booked.transfer_id
    assert "name one" in operator.is_refused(
        "transfer", "assign", found, "TN-LIVE-000001", "TN-LIVE-000002", "--amount", "1.00"
    )
    assert operator.does("transfer", "assign", found, "TN-LIVE-000001", "TN-LIVE-000002") == (
        f"Transfer {found} is assigned to invoice TN-LIVE-000001, which is paid, and to invoice TN-LIVE-000002, "
        "which is open."
    )
    assert [await billing.status(order) for order in orders] == ["paid", "placed"]
    assert await states(billing) == ["part_payment"]
    await billing.check_invariants()


async def _plan_small_returns(billing: Billing, *minors: int) -> list[BankReturn]:
    """Of transfers that name no invoice, each from the same account."""
    booked = await import_file(billing, camt_file([Line(DAY, minor, "?", reference=new_id("ref")) for minor in minors]))
    async with billing.database.transaction() as tx:
        for each in booked:
            await return_transfer(tx, each.transfer_id, None, reason="Not ours", to=None, by=ADA.at(billing.clock.now))
    return await open_returns(billing)


async def _export_all(billing: Billing) -> ReturnFile:
    async with billing.database.transaction() as tx:
        settings = msgspec.structs.replace(billing.settings, bank_iban=OWN)
        return await export_returns(
            tx, Mode.LIVE, "EUR", format_="csv", settings=settings, by=ADA.at(billing.clock.now)
        )


async def test_returns_to_one_account_are_one_payment(billing: Billing) -> None:
    first, second, other = await _plan_small_returns(billing, 120, 230, 340)
    async with billing.database.transaction() as tx:
        await tx.execute("UPDATE transfer_returns SET to_iban = $2 WHERE id = $1", other.id, EVE_IBAN)
    written = await _export_all(billing)
    head, *rows = written.content.decode().splitlines()
    assert head.startswith("id,name,iban,bic,amount")
    assert [row.split(",")[:5:2] for row in rows] == [
        [first.payment_id, ADA_IBAN, "3.50"],
        [other.payment_id, EVE_IBAN, "3.40"],
    ]
    # The line of the payment shows both returns.
    await import_file(billing, camt_file([Line(DAY, -350, f"{first.payment_id} back", reference="OUT")]))
    assert [each.id for each in await open_returns(billing)] == [other.id]
    # Its money comes back: both failed, and the line is dealt with.
    [back] = await import_file(billing, camt_file([Line(DAY, 350, f"{first.payment_id} closed", reference="BACK")]))
    async with billing.database.transaction() as tx:
        by = ADA.at(billing.clock.now)
        await fail_refund_return(tx, second.id, "Account closed", incoming_id=back.transfer_id, by=by)
    found = await billing.fetch("SELECT status, incoming_id FROM transfer_returns ORDER BY amount_minor")
    assert [tuple(row) for row in found] == [("failed", back.transfer_id)] * 2 + [("exported", None)]
    await billing.check_invariants()


async def test_small_returns_wait_for_others_to_the_same_account(billing: Billing) -> None:
    small, *_ = await _plan_small_returns(billing, 3)
    written = await _export_all(billing)
    assert (written.batch_id, [(each.id, "until 2026-" in why) for each, why in written.left_out]) == (
        None,
        [(small.id, True)],
    )
    # Together with another they are large enough.
    await _plan_small_returns(billing, 97)
    written = await _export_all(billing)
    assert [(each.amount_minor, each.paid_with) for each in written.exported] == [(3, None), (97, small.id)]
    # After 30 days a single one is paid.
    [late] = [each for each in await _plan_small_returns(billing, 4) if each.amount_minor == 4]
    billing.clock.advance(days=29)
    assert not (await _export_all(billing)).exported
    billing.clock.advance(days=1)
    assert [each.id for each in (await _export_all(billing)).exported] == [late.id]


@given(st.lists(st.integers(1, 50), max_size=6), st.integers(-1, 200))
def test_a_refund_takes_one_transfer_or_the_fewest(available: list[int], amount: int) -> None:
    parts = split_refund(available, amount)
    if not 0 < amount <= sum(available):
        assert parts == []
        return
    assert sum(minor for _, minor in parts) == amount
    assert all(0 < minor <= available[place] for place, minor in parts)
    assert len({place for place, _ in parts}) == len(parts)
    fewest = next(count for count in range(1, 7) if any(sum(some) >= amount for some in combinations(available, count)))
    assert len(parts) == fewest
    if fewest == 1:
        # The newest that covers it.
        assert parts[0][0] == next(place for place, minor in enumerate(available) if minor >= amount)
