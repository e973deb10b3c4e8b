"""Live invoices without tax wait until a register says that the VAT id of the buyer is valid."""

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import msgspec
import pytest

from tests.money.invoices.billing import Billing
from tests.money.invoices.test_taxed_invoices import FRENCH, FRENCH_ID, GERMAN_SELLER, give_profile, with_settings
from tests.support.command import Operator
from tests.support.receivers import Delivery, Receiver, Reply, receiving, reply
from tests.support.tls import Authority
from tests.support.world import World, add_account
from tonne.apps.cli.operations.doctor import find_waiting
from tonne.apps.lookup.order_view import describe_order
from tonne.apps.wiring.channel_parts import ChannelParts
from tonne.money.accounting.reports.sales_list import SalesText, read_sales_any_account
from tonne.money.invoices.issuing.issue_invoices import HELD_BACK_RETRY
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.selling.accounts.model import Billing as BillingMode
from tonne.selling.accounts.tax.check_vat_ids import UNAVAILABLE_RETRY, CheckVatIds
from tonne.selling.accounts.tax.vat_checks import VatOutcome, find_vat_check
from tonne.selling.orders.model import HoldReason, Order

CHECK = "live invoices are not held back by VAT ids or exchange rates"
VALID = {"valid": True, "name": "MARLOWE SARL", "address": "1 RUE DE LA PAIX\n75002 PARIS"}


class Vies:
    """The register, on loopback: answers as the tests choose."""

    def __init__(self, receiver: Receiver) -> None:
        self.receiver = receiver
        self.receiver.rule = self.answer
        self.known: dict[str, Any] = VALID
        self.status = 200

    @property
    def url(self) -> str:
        return self.receiver.url.removesuffix("/hook")

    @property
    def asked(self) -> list[dict[str, str]]:
        return [json.loads(each.body) for each in self.receiver.deliveries]

    def answer(self, delivery: Delivery) -> Reply:
        assert delivery.request_line == "POST /check-vat-number HTTP/1.1"
        request = json.loads(delivery.body)
        echoed = {name: request[name] for name in ("countryCode", "vatNumber")}
        number = "WAPIAAAAXyz123" if "requesterNumber" in request else ""
        return reply(self.status, json.dumps(echoed | {"requestIdentifier": number} | self.known).encode())


@pytest.fixture
async def vies(tmp_path: Any) -> AsyncIterator[tuple[Vies, Authority]]:
    authority = Authority(tmp_path)
    async with receiving(authority.context()) as receiver:
        yield Vies(receiver), authority


@pytest.fixture
def settings(settings: Settings, vies: tuple[Vies, Authority]) -> Settings:
    register, authority = vies
    local = {"webhook_allow_private": "127.0.0.0/8", "webhook_ca_file": str(authority.ca_file)}
    return msgspec.structs.replace(settings, **GERMAN_SELLER, vies_url=register.url, **local)


def job_of(billing: Billing) -> CheckVatIds:
    return ChannelParts(billing.database, billing.settings, billing.clock).check_vat_ids


async def buy(billing: Billing, world: World, **profile: Any) -> Order:
    await give_profile(billing, world, **(FRENCH | profile))
    order = await billing.place_order(world.ours_live.scope)
    await billing.work()
    return order


async def hold_reason(billing: Billing, order: Order) -> str | None:
    found: str | None = await billing.fetchval("SELECT hold_reason FROM orders WHERE id = $1", order.id)
    return found


async def test_an_invoice_waits_for_the_register_and_names_itsanswer(
    billing: Billing, world: World, vies: tuple[Vies, Authority]
) -> None:
    register, _ = vies
    test_order = await billing.place_order(world.ours_test.scope)
    order = await buy(billing, world)
    assert await hold_reason(billing, order) == HoldReason.VAT_CHECK_MISSING
    assert await billing.fetchval("SELECT count(*) FROM invoices WHERE mode = 'live'") == 0
    assert (await billing.invoice(test_order)).mode is Mode.TEST

    check_vat_ids = job_of(billing)
    assert await check_vat_ids.run_once()
    assert not await check_vat_ids.run_once(), "it is known now"
    assert register.asked == [
        {
            "countryCode": "FR",
            "vatNumber": FRENCH_ID[2:],
            "requesterMemberStateCode": "DE",
            "requesterNumber": "136695976",
        }
    ]
    billing.clock.now += HELD_BACK_RETRY
    await billing.work()
    record = (await billing.invoice(order)).read_record()
    assert [tax.code for tax in record.taxes] == ["DE-AE"]
    proof = record.buyer.vat_check
    assert proof is not None
    assert (proof.source, proof.consultation_number) == ("vies", "WAPIAAAAXyz123")
    today = billing.clock.now.date()
    async with billing.database.transaction() as tx:
        batches = read_sales_any_account(tx, Mode.LIVE, today, today + timedelta(days=1), None)
        [row] = [SalesText().rows(each) async for batch in batches for each in batch]
    assert f"{FRENCH_ID},WAPIAAAAXyz123,{proof.checked_on},DE-AE," in row
    await billing.check_invariants()


async def test_a_register_that_is_down_uses_the_lastanswer_for_ninety_days(
    billing: Billing, world: World, vies: tuple[Vies, Authority]
) -> None:
    register, _ = vies
    check_vat_ids = job_of(billing)
    await give_profile(billing, world, **FRENCH)
    await check_vat_ids.run_once()
    # Down in each way that it has.
    faults: list[tuple[int, dict[str, Any]]] = [
        (500, VALID),
        (200, {"actionSucceed": False, "errorWrappers": [{"error": "MS_UNAVAILABLE"}]}),
        (200, VALID | {"countryCode": "IT"}),
        (200, {"valid": False, "userError": "MS_MAX_CONCURRENT_REQ"}),
        (302, VALID),
    ]
    billing.clock.now += timedelta(days=60)
    for register.status, register.known in faults:
        billing.clock.now += UNAVAILABLE_RETRY + timedelta(seconds=1)
        assert await check_vat_ids.run_once(), register.known
    outcomes = await billing.fetch("SELECT outcome FROM vat_checks ORDER BY checked_at")
    assert [row["outcome"] for row in outcomes] == ["valid", "unavailable"], "only the last request that failed is kept"
    order = await buy(billing, world)
    assert (await billing.invoice(order)).reference == "TN-LIVE-000001"

    billing.clock.now += timedelta(days=31)
    late = await buy(billing, world)
    assert await hold_reason(billing, late) == HoldReason.VAT_CHECK_MISSING
    async with billing.database.connection() as connection:
        waiting = await find_waiting(connection, billing.settings, billing.clock.now + timedelta(minutes=16))
    assert [late.id in place for place in waiting[CHECK]] == [True]


async def test_an_invalid_number_waits_for_a_person(
    billing: Billing, world: World, operator: Operator, vies: tuple[Vies, Authority]
) -> None:
    register, _ = vies
    register.known = {"valid": False, "name": "---", "address": "---"}
    order = await buy(billing, world)
    await job_of(billing).run_once()
    billing.clock.now += HELD_BACK_RETRY
    await billing.work()
    assert await hold_reason(billing, order) == HoldReason.VAT_CHECK_MISSING
    async with billing.database.transaction() as tx:
        described = await describe_order(tx, order, billing.settings, billing.clock.now)
    assert f"the register says that the VAT id {FRENCH_ID} is not valid" in described.invoice_state
    async with billing.database.connection() as connection:
        found = await find_vat_check(connection, FRENCH_ID)
    assert found is not None
    assert (found.outcome, found.name) == (VatOutcome.INVALID, None)

    words = ("--outcome", "valid", "--consultation-number", "WAPI1", "--name", "Marlowe")
    operator.does("tax", "vat-check", "record", "fr 83 404 833 048", *words)
    assert "by_hand" in operator.does("tax", "vat-check", "list", FRENCH_ID, "--csv")
    assert await billing.fetchval("SELECT count(*) FROM audit_log WHERE action = 'vat_check.recorded'") == 1


@pytest.mark.parametrize("vat_register", ["by_hand"])
async def test_without_a_register_nothing_is_asked(
    billing: Billing, world: World, vies: tuple[Vies, Authority], vat_register: str
) -> None:
    with_settings(billing, vat_register=vat_register)
    await buy(billing, world)
    assert not await job_of(billing).run_once()
    assert vies[0].asked == []


async def test_numbers_that_no_register_of_the_eu_has_need_no_check(billing: Billing, world: World) -> None:
    order = await buy(billing, world, country="NO", tax_id="NO 974760673 MVA")
    assert (await billing.invoice(order)).read_record().buyer.vat_check is None


async def test_no_transaction_is_open_while_the_register_is_asked(
    billing: Billing, world: World, vies: tuple[Vies, Authority]
) -> None:
    register, _ = vies
    open_ones: list[int] = []
    query = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in%'"

    def look(delivery: Delivery) -> Reply:
        async def then(writer: asyncio.StreamWriter) -> None:
            open_ones.append(await billing.fetchval(query))
            await register.answer(delivery)(writer)

        return then

    register.receiver.rule = look
    await give_profile(billing, world, **FRENCH)
    assert await job_of(billing).run_once()
    assert open_ones == [0]


async def test_a_consolidated_invoice_waits_for_the_proof_and_for_the_rate(
    billing: Billing, world: World, operator: Operator
) -> None:
    await give_profile(billing, world, **FRENCH)
    await billing.renew_rates()
    async with billing.database.transaction() as tx:
        scope = await add_account(tx, world.ours_live.scope.organisation_id, Mode.LIVE, currency="USD")
    await billing.set_billing(scope, billing=BillingMode.MONTHLY)
    order = await billing.place_order(scope)
    await billing.work()
    billing.clock.now += timedelta(days=32)
    await billing.work()
    assert await billing.fetchval("SELECT hold_reason FROM billing_groups") == HoldReason.VAT_CHECK_MISSING
    await job_of(billing).run_once()
    day = (billing.clock.now - timedelta(days=1)).date()
    for reason in (HoldReason.EXCHANGE_RATE_MISSING, None):
        billing.clock.now += HELD_BACK_RETRY
        await billing.work()
        assert await billing.fetchval("SELECT hold_reason FROM billing_groups") == reason
        operator.does("rates", "set", "USD", "1.25", "--day", day.isoformat(), "--source", "Ministry")
    record = (await billing.invoice(order)).read_record()
    assert record.buyer.vat_check is not None
    assert record.home is not None
    assert (record.home.tax, record.home.rate, record.home.source) == ("0.00", "1.25", "Ministry")
    assert record.taxes[0].home_net is not None
