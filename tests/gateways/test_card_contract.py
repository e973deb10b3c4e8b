"""What every card gateway keeps to. The simulated one runs on a real database, Stripe's against localstripe."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.gateways.card_bench import Behaviour, Bench, SimulatedBench, request, stripe_bench
from tonne.base.ids import new_id
from tonne.db.pool import Database
from tonne.gateways.card import CardNotFound, ChargeOutcome, ChargeResult, RefundOutcome, StoredCard


@pytest.fixture
async def simulated(db: Database) -> Bench:
    return SimulatedBench(db)


@pytest.fixture
async def stripe(localstripe_url: str) -> AsyncIterator[Bench]:
    async with stripe_bench(localstripe_url) as made:
        yield made


@pytest.fixture(params=["simulated", "stripe"])
def bench(request: pytest.FixtureRequest) -> Bench:
    made: Bench = request.getfixturevalue(request.param)
    return made


async def test_a_good_card_is_charged_and_the_gateway_says_how_much(bench: Bench) -> None:
    card = await bench.card()
    charged = await bench.gateway.charge(request(card, 1999, "EUR"))
    assert (charged.kind, charged.amount_minor, charged.currency) == (ChargeOutcome.CAPTURED, 1999, "EUR")
    assert charged.reference
    assert charged.code is None
    assert await bench.taken(card) == [1999]


@pytest.mark.parametrize(
    ("amount_minor", "currency"),
    [(500, "JPY"), (12_340, "KWD"), (700, "ISK"), (700, "UGX"), (45_000, "MGA"), (1, "USD")],
)
async def test_amounts_come_back_in_our_units_whatever_the_currencys_decimals(
    bench: Bench, amount_minor: int, currency: str
) -> None:
    asked = request(await bench.card(), amount_minor, currency)
    for charged in (await bench.gateway.charge(asked), await bench.gateway.look_up(asked)):
        assert (charged.kind, charged.amount_minor, charged.currency) == (
            ChargeOutcome.CAPTURED,
            amount_minor,
            currency,
        )


async def test_one_id_charges_once_and_tells_the_same_each_time(bench: Bench) -> None:
    card = await bench.card()
    asked = request(card)
    first = await bench.gateway.charge(asked)
    assert [await bench.gateway.charge(asked) for _ in range(3)] == [first] * 3
    assert await bench.taken(card) == [1999]


async def test_two_ids_charge_twice(bench: Bench) -> None:
    card = await bench.card()
    first, second = [await bench.gateway.charge(request(card)) for _ in range(2)]
    assert first.reference != second.reference
    assert await bench.taken(card) == [1999, 1999]


@pytest.mark.parametrize("behaviour", [Behaviour.GOOD, Behaviour.SOFT])
async def test_an_id_with_another_amount_is_refused_and_charges_nothing(bench: Bench, behaviour: Behaviour) -> None:
    card = await bench.card(behaviour)
    asked = request(card, 1999)
    await bench.gateway.charge(asked)
    taken = await bench.taken(card)
    again = await bench.gateway.charge(request(card, 2000, charge_id=asked.id))
    assert (again.kind, again.code) == (ChargeOutcome.REFUSED, "idempotency_mismatch")
    assert await bench.taken(card) == taken


async def test_an_id_with_another_card_is_refused(bench: Bench) -> None:
    asked = request(await bench.card())
    await bench.gateway.charge(asked)
    other = await bench.card()
    again = await bench.gateway.charge(request(other, charge_id=asked.id))
    assert (again.kind, again.code) == (ChargeOutcome.REFUSED, "idempotency_mismatch")
    assert await bench.taken(other) == []


async def test_many_workers_with_one_id_charge_once(bench: Bench) -> None:
    """Whoever comes while the first is under way may be told that nobody knows yet, but never another story."""
    card = await bench.card()
    asked = request(card)
    answers = await asyncio.gather(*(bench.gateway.charge(asked) for _ in range(8)))
    assert {answer.kind for answer in answers} <= {ChargeOutcome.CAPTURED, ChargeOutcome.UNKNOWN}
    captured = [answer for answer in answers if answer.kind is ChargeOutcome.CAPTURED]
    assert captured
    assert [await bench.gateway.look_up(asked), await bench.gateway.charge(asked)] == [captured[0]] * 2
    assert len({answer.reference for answer in captured}) == 1
    assert await bench.taken(card) == [1999]


@pytest.mark.parametrize(
    ("behaviour", "kind", "code"),
    [
        (Behaviour.SOFT, ChargeOutcome.DECLINED, "insufficient_funds"),
        (Behaviour.HARD, ChargeOutcome.REFUSED, "stolen_card"),
        (Behaviour.AUTHENTICATION, ChargeOutcome.AUTHENTICATION_REQUIRED, "authentication_required"),
    ],
)
async def test_a_card_that_does_not_pay_says_why_then_and_later(
    bench: Bench, behaviour: Behaviour, kind: ChargeOutcome, code: str
) -> None:
    card = await bench.card(behaviour)
    asked = request(card)
    for charged in (
        await bench.gateway.charge(asked),
        await bench.gateway.charge(asked),
        await bench.gateway.look_up(asked),
    ):
        assert (charged.kind, charged.code) == (kind, code)
        assert charged.reference
    assert await bench.taken(card) == []


async def test_a_card_that_nobody_knows_is_refused_for_good(bench: Bench) -> None:
    good = await bench.card()
    card = bench.unknown_card(good.customer)
    asked = request(card)
    charged = await bench.gateway.charge(asked)
    assert (charged.kind, charged.code) == (ChargeOutcome.REFUSED, "resource_missing")
    assert charged.message
    assert await bench.gateway.look_up(asked) == ChargeResult(ChargeOutcome.NOT_FOUND)
    with pytest.raises(CardNotFound, match=r"no (test card|payment method)"):
        await bench.gateway.describe(card)


async def test_nothing_to_charge_is_refused(bench: Bench) -> None:
    card = await bench.card()
    charged = await bench.gateway.charge(request(card, 0))
    assert charged.kind is ChargeOutcome.REFUSED
    assert await bench.taken(card) == []


async def test_looking_up_finds_the_charge_asked_for_and_no_other(bench: Bench) -> None:
    card = await bench.card()
    asked = [request(card, amount) for amount in (100, 200, 300)]
    made = [await bench.gateway.charge(each) for each in asked]
    assert [await bench.gateway.look_up(each) for each in asked] == made
    assert [answer.amount_minor for answer in made] == [100, 200, 300]


async def test_looking_up_an_id_that_was_never_used_finds_nothing_and_charges_nothing(bench: Bench) -> None:
    card = await bench.card()
    await bench.gateway.charge(request(card, 100))
    for _ in range(2):
        assert await bench.gateway.look_up(request(card)) == ChargeResult(ChargeOutcome.NOT_FOUND)
    assert await bench.taken(card) == [100]


async def test_a_charge_is_refunded_once_per_id(bench: Bench) -> None:
    charged = await bench.gateway.charge(request(await bench.card()))
    assert charged.reference
    refund_id = new_id("rfd")
    first = await bench.gateway.refund(refund_id, charged.reference, 1999, "EUR")
    assert first.kind is RefundOutcome.REFUNDED
    assert first.reference
    assert await bench.gateway.refund(refund_id, charged.reference, 1999, "EUR") == first
    assert await bench.given_back(charged.reference) == 1999


async def test_many_workers_with_one_refund_id_give_back_once(bench: Bench) -> None:
    charged = await bench.gateway.charge(request(await bench.card()))
    assert charged.reference
    refund_id, reference = new_id("rfd"), charged.reference
    answers = await asyncio.gather(*(bench.gateway.refund(refund_id, reference, 500, "EUR") for _ in range(6)))
    assert {answer.kind for answer in answers} <= {RefundOutcome.REFUNDED, RefundOutcome.UNKNOWN}
    assert (await bench.gateway.refund(refund_id, reference, 500, "EUR")).kind is RefundOutcome.REFUNDED
    assert await bench.given_back(reference) == 500


async def test_a_refund_in_parts_cannot_exceed_the_charge(bench: Bench) -> None:
    charged = await bench.gateway.charge(request(await bench.card()))
    assert charged.reference
    for amount, kind in ((1500, "refunded"), (500, "failed"), (499, "refunded"), (1, "failed")):
        refunded = await bench.gateway.refund(new_id("rfd"), charged.reference, amount, "EUR")
        assert refunded.kind == kind
        assert bool(refunded.message) == (kind == "failed")
    assert await bench.given_back(charged.reference) == 1999


async def test_a_refund_of_a_charge_that_never_was_fails(bench: Bench) -> None:
    refunded = await bench.gateway.refund(new_id("rfd"), "pi_nobodyknows", 100, "EUR")
    assert refunded.kind is RefundOutcome.FAILED
    assert refunded.message


async def test_a_declined_charge_cannot_be_refunded(bench: Bench) -> None:
    charged = await bench.gateway.charge(request(await bench.card(Behaviour.SOFT)))
    assert charged.reference
    refunded = await bench.gateway.refund(new_id("rfd"), charged.reference, 1999, "EUR")
    assert refunded.kind is RefundOutcome.FAILED


async def test_a_refund_does_not_change_what_is_said_of_the_charge(bench: Bench) -> None:
    asked = request(await bench.card())
    charged = await bench.gateway.charge(asked)
    assert charged.reference
    await bench.gateway.refund(new_id("rfd"), charged.reference, 1999, "EUR")
    assert await bench.gateway.look_up(asked) == charged


async def test_a_stored_card_is_described_by_its_gateway(bench: Bench) -> None:
    card = await bench.card()
    described = await bench.gateway.describe(card)
    assert StoredCard(described.customer, described.method) == card
    assert (described.brand, described.last_four) == ("visa", "4242")
    assert described.expires in {"2049-04", "2049-12"}
