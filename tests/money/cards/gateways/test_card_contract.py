"""The contract of card gateways. The simulated one runs on a real database, the Stripe one against localstripe."""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta

import pytest

from tests.money.cards.gateways.gateway_under_test import (
    Behaviour,
    GatewayUnderTest,
    SimulatedUnderTest,
    request,
    stripe_under_test,
)
from tonne.money.cards.gateways.card import (
    CardNotFound,
    ChargeOutcome,
    ChargeResult,
    PaymentNotRead,
    RefundOutcome,
    StoredCard,
)
from tonne.platform.db.database import Database
from tonne.platform.values.context import Mode, new_id, replace, utc_now


@pytest.fixture
async def simulated(db: Database) -> GatewayUnderTest:
    return SimulatedUnderTest(db)


@pytest.fixture
async def stripe(localstripe_url: str) -> AsyncIterator[GatewayUnderTest]:
    async with stripe_under_test(localstripe_url) as made:
        yield made


@pytest.fixture(params=["simulated", "stripe"])
def subject(request: pytest.FixtureRequest) -> GatewayUnderTest:
    made: GatewayUnderTest = request.getfixturevalue(request.param)
    return made


async def test_a_good_card_is_charged_and_the_result_has_the_amount(subject: GatewayUnderTest) -> None:
    card = await subject.card()
    charged = await subject.gateway.charge(request(card, 1999, "EUR"))
    assert (charged.kind, charged.amount_minor, charged.currency) == (ChargeOutcome.CAPTURED, 1999, "EUR")
    assert charged.reference
    assert charged.code is None
    assert await subject.taken(card) == [1999]


@pytest.mark.parametrize(
    ("amount_minor", "currency"),
    [(500, "JPY"), (12_340, "KWD"), (700, "ISK"), (700, "UGX"), (45_000, "MGA"), (1, "USD")],
)
async def test_amounts_are_returned_in_our_units(subject: GatewayUnderTest, amount_minor: int, currency: str) -> None:
    asked = request(await subject.card(), amount_minor, currency)
    for charged in (await subject.gateway.charge(asked), await subject.gateway.look_up(asked)):
        assert (charged.kind, charged.amount_minor, charged.currency) == (
            ChargeOutcome.CAPTURED,
            amount_minor,
            currency,
        )


async def test_an_id_is_charged_once_and_returns_the_same_result(subject: GatewayUnderTest) -> None:
    card = await subject.card()
    asked = request(card)
    first = await subject.gateway.charge(asked)
    assert [await subject.gateway.charge(asked) for _ in range(3)] == [first] * 3
    assert await subject.taken(card) == [1999]


async def test_two_ids_charge_twice(subject: GatewayUnderTest) -> None:
    card = await subject.card()
    first, second = [await subject.gateway.charge(request(card)) for _ in range(2)]
    assert first.reference != second.reference
    assert await subject.taken(card) == [1999, 1999]


@pytest.mark.parametrize("behaviour", [Behaviour.GOOD, Behaviour.SOFT])
async def test_an_id_with_another_amount_is_refused_and_charges_nothing(
    subject: GatewayUnderTest, behaviour: Behaviour
) -> None:
    card = await subject.card(behaviour)
    asked = request(card, 1999)
    await subject.gateway.charge(asked)
    taken = await subject.taken(card)
    again = await subject.gateway.charge(request(card, 2000, charge_id=asked.id))
    assert (again.kind, again.code) == (ChargeOutcome.REFUSED, "idempotency_mismatch")
    assert await subject.taken(card) == taken


async def test_an_id_with_another_card_is_refused(subject: GatewayUnderTest) -> None:
    asked = request(await subject.card())
    await subject.gateway.charge(asked)
    other = await subject.card()
    again = await subject.gateway.charge(request(other, charge_id=asked.id))
    assert (again.kind, again.code) == (ChargeOutcome.REFUSED, "idempotency_mismatch")
    assert await subject.taken(other) == []


async def test_many_workers_with_one_id_charge_once(subject: GatewayUnderTest) -> None:
    """A concurrent request may get `unknown`, but never another result."""
    card = await subject.card()
    asked = request(card)
    answers = await asyncio.gather(*(subject.gateway.charge(asked) for _ in range(8)))
    assert {answer.kind for answer in answers} <= {ChargeOutcome.CAPTURED, ChargeOutcome.UNKNOWN}
    captured = [answer for answer in answers if answer.kind is ChargeOutcome.CAPTURED]
    assert captured
    assert [await subject.gateway.look_up(asked), await subject.gateway.charge(asked)] == [captured[0]] * 2
    assert len({answer.reference for answer in captured}) == 1
    assert await subject.taken(card) == [1999]


@pytest.mark.parametrize(
    ("behaviour", "kind", "code"),
    [
        (Behaviour.SOFT, ChargeOutcome.DECLINED, "insufficient_funds"),
        (Behaviour.HARD, ChargeOutcome.REFUSED, "stolen_card"),
        (Behaviour.AUTHENTICATION, ChargeOutcome.AUTHENTICATION_REQUIRED, "authentication_required"),
    ],
)
async def test_a_declined_charge_returns_its_reason_again(
    subject: GatewayUnderTest, behaviour: Behaviour, kind: ChargeOutcome, code: str
) -> None:
    card = await subject.card(behaviour)
    asked = request(card)
    for charged in (
        await subject.gateway.charge(asked),
        await subject.gateway.charge(asked),
        await subject.gateway.look_up(asked),
    ):
        assert (charged.kind, charged.code) == (kind, code)
        assert charged.reference
    assert await subject.taken(card) == []


async def test_an_unknown_card_is_refused(subject: GatewayUnderTest) -> None:
    good = await subject.card()
    card = subject.unknown_card(good.customer)
    asked = request(card)
    charged = await subject.gateway.charge(asked)
    assert (charged.kind, charged.code) == (ChargeOutcome.REFUSED, "resource_missing")
    assert charged.message
    assert await subject.gateway.look_up(asked) == ChargeResult(ChargeOutcome.NOT_FOUND)
    with pytest.raises(CardNotFound, match=r"no (test card|payment method)"):
        await subject.gateway.describe(card)


async def test_a_charge_of_zero_is_refused(subject: GatewayUnderTest) -> None:
    card = await subject.card()
    charged = await subject.gateway.charge(request(card, 0))
    assert charged.kind is ChargeOutcome.REFUSED
    assert await subject.taken(card) == []


async def test_a_look_up_finds_the_right_charge(subject: GatewayUnderTest) -> None:
    card = await subject.card()
    asked = [request(card, amount) for amount in (100, 200, 300)]
    made = [await subject.gateway.charge(each) for each in asked]
    assert [await subject.gateway.look_up(each) for each in asked] == made
    assert [answer.amount_minor for answer in made] == [100, 200, 300]


async def test_a_look_up_of_an_unused_id_finds_nothing_and_charges_nothing(
    subject: GatewayUnderTest,
) -> None:
    card = await subject.card()
    await subject.gateway.charge(request(card, 100))
    for _ in range(2):
        assert await subject.gateway.look_up(request(card)) == ChargeResult(ChargeOutcome.NOT_FOUND)
    assert await subject.taken(card) == [100]


async def test_a_charge_is_refunded_once_per_id(subject: GatewayUnderTest) -> None:
    charged = await subject.gateway.charge(request(await subject.card()))
    assert charged.reference
    refund_id = new_id("rfd")
    first = await subject.gateway.refund(refund_id, charged.reference, 1999, "EUR")
    assert first.kind is RefundOutcome.REFUNDED
    assert first.reference
    assert await subject.gateway.refund(refund_id, charged.reference, 1999, "EUR") == first
    assert await subject.given_back(charged.reference) == 1999


async def test_many_workers_with_one_refund_id_refund_once(subject: GatewayUnderTest) -> None:
    charged = await subject.gateway.charge(request(await subject.card()))
    assert charged.reference
    refund_id, reference = new_id("rfd"), charged.reference
    answers = await asyncio.gather(*(subject.gateway.refund(refund_id, reference, 500, "EUR") for _ in range(6)))
    assert {answer.kind for answer in answers} <= {RefundOutcome.REFUNDED, RefundOutcome.UNKNOWN}
    assert (await subject.gateway.refund(refund_id, reference, 500, "EUR")).kind is RefundOutcome.REFUNDED
    assert await subject.given_back(reference) == 500


async def test_a_refund_in_parts_cannot_exceed_the_charge(subject: GatewayUnderTest) -> None:
    charged = await subject.gateway.charge(request(await subject.card()))
    assert charged.reference
    for amount, kind in ((1500, "refunded"), (500, "failed"), (499, "refunded"), (1, "failed")):
        refunded = await subject.gateway.refund(new_id("rfd"), charged.reference, amount, "EUR")
        assert refunded.kind == kind
        assert bool(refunded.message) == (kind == "failed")
    assert await subject.given_back(charged.reference) == 1999


async def test_a_refund_of_an_unknown_charge_fails(subject: GatewayUnderTest) -> None:
    refunded = await subject.gateway.refund(new_id("rfd"), "pi_nobodyknows", 100, "EUR")
    assert refunded.kind is RefundOutcome.FAILED
    assert refunded.message


async def test_a_declined_charge_cannot_be_refunded(subject: GatewayUnderTest) -> None:
    charged = await subject.gateway.charge(request(await subject.card(Behaviour.SOFT)))
    assert charged.reference
    refunded = await subject.gateway.refund(new_id("rfd"), charged.reference, 1999, "EUR")
    assert refunded.kind is RefundOutcome.FAILED


async def test_a_refund_does_not_change_the_result_of_the_charge_and_a_look_up_tells_of_it(
    subject: GatewayUnderTest,
) -> None:
    asked = request(await subject.card())
    charged = await subject.gateway.charge(asked)
    assert charged.reference
    await subject.gateway.refund(new_id("rfd"), charged.reference, 1999, "EUR")
    assert await subject.gateway.look_up(asked) == replace(charged, refunded_minor=1999)


async def test_the_gateways_record_has_all_refunds_of_a_payment(subject: GatewayUnderTest) -> None:
    charged = await subject.gateway.charge(request(await subject.card()))
    other = await subject.gateway.charge(request(await subject.card()))
    assert charged.reference
    assert other.reference
    before = utc_now() - timedelta(minutes=1)
    ours = new_id("rfd")
    await subject.gateway.refund(ours, charged.reference, 500, "EUR")
    await subject.gateway.refund(new_id("rfd"), charged.reference, 99, "EUR")
    payment = await subject.gateway.read_payment(charged.reference)
    assert (payment.captured_minor, payment.currency, payment.mode, payment.disputes) == (1999, "EUR", Mode.TEST, ())
    assert sorted(each.amount_minor for each in payment.refunds) == [99, 500]
    assert {each.kind for each in payment.refunds} == {RefundOutcome.REFUNDED}
    assert ours in {each.refund_id for each in payment.refunds}
    changed = await subject.gateway.list_changed(before)
    assert charged.reference in changed
    assert other.reference not in changed
    assert await subject.gateway.list_changed(utc_now() + timedelta(hours=1)) == set()


async def test_an_unknown_payment_has_no_record(subject: GatewayUnderTest) -> None:
    with pytest.raises(PaymentNotRead):
        await subject.gateway.read_payment("pi_nobodyknows")


async def test_a_stored_card_is_described_by_its_gateway(subject: GatewayUnderTest) -> None:
    card = await subject.card()
    described = await subject.gateway.describe(card)
    assert StoredCard(described.customer, described.method) == card
    assert (described.brand, described.last_four) == ("visa", "4242")
    assert described.expires in {"2049-04", "2049-12"}
