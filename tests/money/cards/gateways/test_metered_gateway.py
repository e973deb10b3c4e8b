"""Every request to a gateway is counted with its outcome and timed."""

import pytest

from tests.support.samples import parse_samples, total
from tests.support.spans import exporting_spans
from tonne.money.cards.gateways.card import (
    CardNotFound,
    CardSetup,
    CardSetupPage,
    CardSetupRequest,
    ChargeOutcome,
    ChargeRequest,
    ConfirmationStart,
    PageNotOpened,
    PageRequest,
    PayerPageFailed,
    PayerPages,
    PaymentPage,
    PaymentPages,
    StoredCard,
)
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.gateways.metered_gateway import GatewayMetrics, metered
from tonne.platform.db.database import Database
from tonne.platform.db.queues import HoldWatch
from tonne.platform.process.telemetry.metrics_text import render
from tonne.platform.values.context import Mode, new_id

GOOD, DECLINED = "4242424242424242", "4000000000009995"


def _request(number: str) -> ChargeRequest:
    return ChargeRequest(
        id=new_id("chg"),
        order_id="ord_1",
        account_id="acc_1",
        mode=Mode.TEST,
        amount_minor=100,
        currency="EUR",
        source=StoredCard("cus_1", number),
    )


async def test_operations_12_requests_are_counted_by_operation_and_outcome(db: Database) -> None:
    meter = GatewayMetrics()
    gateway = metered("simulated", SimulatedCardGateway(db), meter, HoldWatch(db))
    paid = await gateway.charge(_request(GOOD))
    assert (await gateway.charge(_request(DECLINED))).kind is ChargeOutcome.DECLINED
    await gateway.look_up(_request(GOOD))
    assert paid.reference is not None
    await gateway.refund("ref_1", paid.reference, 100, "EUR")
    await gateway.describe(StoredCard("cus_1", GOOD))
    with pytest.raises(CardNotFound):
        await gateway.describe(StoredCard("cus_1", "no such card"))
    samples = parse_samples(render(metric.snapshot() for metric in meter.metrics).decode())
    counted = {
        (labels["operation"], labels["outcome"]): value
        for (name, pairs), value in samples.items()
        if name == "tonne_gateway_requests_total" and (labels := dict(pairs))["gateway"] == "simulated"
    }
    assert counted == {
        ("charge", "captured"): 1,
        ("charge", "declined"): 1,
        ("look_up", "not_found"): 1,
        ("refund", "refunded"): 1,
        ("describe", "described"): 1,
        ("describe", "not_found"): 1,
    }
    assert total(samples, "tonne_gateway_request_seconds_count", operation="charge") == 2
    assert not isinstance(gateway, PaymentPages), "it has no payment pages"


class PagesThatFail(SimulatedCardGateway):
    async def open_page(self, request: PageRequest) -> PaymentPage:  # noqa: ARG002 - refused anyway
        raise PageNotOpened("not today")

    async def confirm(self, request: ChargeRequest, return_url: str) -> ConfirmationStart:  # noqa: ARG002 - refused
        raise PayerPageFailed("not today")

    async def open_card_setup(self, request: CardSetupRequest) -> CardSetupPage:  # noqa: ARG002 - refused anyway
        raise PayerPageFailed("not today")

    async def look_up_card_setup(self, session_id: str, account_id: str) -> CardSetup:  # noqa: ARG002 - one answer
        return CardSetup(is_open=True)


async def test_a_gateway_with_payment_pages_keeps_them(db: Database) -> None:
    meter = GatewayMetrics()
    gateway = metered("pages", PagesThatFail(db), meter, HoldWatch(db))
    assert isinstance(gateway, PaymentPages)
    with pytest.raises(PageNotOpened):
        await gateway.open_page(None)  # type: ignore[arg-type]
    assert isinstance(gateway, PayerPages)
    with pytest.raises(PayerPageFailed):
        await gateway.confirm(None, "")  # type: ignore[arg-type]
    with pytest.raises(PayerPageFailed):
        await gateway.open_card_setup(None)  # type: ignore[arg-type]
    assert (await gateway.look_up_card_setup("", "")).is_open
    samples = parse_samples(render(metric.snapshot() for metric in meter.metrics).decode())
    assert total(samples, "tonne_gateway_requests_total", operation="open_page", outcome="unavailable") == 1


async def test_requests_are_spans_with_their_outcome_and_without_the_card(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    gateway = metered("simulated", SimulatedCardGateway(db), GatewayMetrics(), HoldWatch(db))
    with exporting_spans(monkeypatch) as exporter:
        await gateway.charge(_request(DECLINED))
        with pytest.raises(CardNotFound):
            await gateway.describe(StoredCard("cus_1", "no such card"))
    found = [(span.name, dict(span.attributes or {})) for span in exporter.get_finished_spans()]
    common = {"tonne.gateway": "simulated"}
    assert [each for each in found if each[0].startswith("gateway")] == [
        ("gateway charge", common | {"tonne.operation": "charge", "tonne.outcome": "declined"}),
        (
            "gateway describe",
            common | {"tonne.operation": "describe", "tonne.outcome": "not_found", "error.type": "CardNotFound"},
        ),
    ]
