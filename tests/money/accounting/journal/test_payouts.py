"""Payouts of the card gateway: imported once, and matched with the line of the bank that shows them."""

from datetime import UTC, datetime

import pytest

from tests.money.invoices.bank import Line, camt_file
from tests.support.clock import ManualClock
from tests.support.scene import Scene
from tests.support.world import TESTER
from tonne.apps.wiring.app import Services
from tonne.money.accounting.journal.errors import PayoutChanged, PayoutNotFound, PayoutNotMatched
from tonne.money.accounting.journal.import_payouts import PayoutImport, import_payouts, match_payout
from tonne.money.accounting.journal.model import LedgerAccount
from tonne.money.accounting.journal.read_journal import Period, sum_balances
from tonne.money.accounting.matching.import_statement import import_statement
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.values.context import Mode

HEAD = "payout_id,paid_on,currency,amount,fee"
ALWAYS = Period(Mode.LIVE, datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC))


class Gateway(Scene):
    async def pay_out(self, *rows: str) -> PayoutImport:
        file = SheetFile("payouts.csv", "\n".join([HEAD, *rows]).encode())
        async with self.database.transaction() as tx:
            return await import_payouts(tx, Mode.LIVE, file, by=TESTER.at(self.clock.now))

    async def transfer(self, minor: int) -> str:
        line = Line(self.clock.now.date(), minor, "STRIPE PAYOUT", reference=f"B{minor}")
        async with self.database.transaction() as tx:
            [booked] = await import_statement(
                tx,
                Mode.LIVE,
                SheetFile("statement", camt_file([line])),
                settings=self.settings,
                by=TESTER.at(self.clock.now),
            )
        return booked.transfer_id

    async def match(self, name: str, transfer_id: str) -> None:
        async with self.database.transaction() as tx:
            await match_payout(tx, name, transfer_id, by=TESTER.at(self.clock.now))

    async def balances(self) -> dict[LedgerAccount, int]:
        await self.post_entries()
        async with self.database.connection() as connection:
            found = await sum_balances(connection, ALWAYS)
        return {posting.account: posting.amount_minor for posting in found}


@pytest.fixture
def gateway(services: Services, clock: ManualClock) -> Gateway:
    return Gateway(services, clock)


async def test_a_payout_is_booked_once_and_leaves_the_transit_account_when_it_arrives(gateway: Gateway) -> None:
    assert await gateway.pay_out("po_1,2026-03-02,EUR,97.00,3.00") == PayoutImport(1, 0)
    assert await gateway.pay_out("po_1,2026-03-02,EUR,97.00,3.00") == PayoutImport(0, 1)
    booked = {LedgerAccount.CARD_CLEARING: -10_000, LedgerAccount.GATEWAY_FEES: 300}
    assert await gateway.balances() == booked | {LedgerAccount.PAYOUTS: 9_700}
    await gateway.match("po_1", await gateway.transfer(9_700))
    assert await gateway.balances() == booked | {LedgerAccount.BANK: 9_700}
    assert await gateway.breaches() == {}


async def test_an_imported_payout_cannot_change(gateway: Gateway) -> None:
    await gateway.pay_out("po_1,2026-03-02,EUR,97.00,3.00")
    with pytest.raises(PayoutChanged, match="po_1"):
        await gateway.pay_out("po_2,2026-03-02,EUR,1.00,0.00", "po_1,2026-03-02,EUR,97.00,3.01")
    assert await gateway.fetchval("SELECT count(*) FROM gateway_payouts") == 1


@pytest.mark.parametrize(
    "row", ["po_1,2026-03-02,EUR,97.001,3.00", "po_1,2026-03-02,EUR,97,three", ",2026-03-02,EUR,1,1"]
)
async def test_a_wrong_cell_is_named(gateway: Gateway, row: str) -> None:
    with pytest.raises(SheetInvalid):
        await gateway.pay_out(row)


async def test_only_a_transfer_of_the_same_amount_matches_and_only_once(gateway: Gateway) -> None:
    await gateway.pay_out("po_1,2026-03-02,EUR,97.00,3.00")
    other, right = await gateway.transfer(9_699), await gateway.transfer(9_700)
    with pytest.raises(PayoutNotMatched, match=r"97\.00 EUR"):
        await gateway.match("po_1", other)
    with pytest.raises(PayoutNotFound):
        await gateway.match("po_9", right)
    await gateway.match("po_1", right)
    assert await gateway.fetchval("SELECT state FROM bank_transfers WHERE id = $1", other) == "unmatched"
    with pytest.raises(PayoutNotMatched, match="already"):
        await gateway.match("po_1", other)
