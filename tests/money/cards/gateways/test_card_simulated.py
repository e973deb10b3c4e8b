"""The simulated gateway beyond the contract: its test cards, and charges that workers share."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tests.conftest import Server
from tests.money.cards.gateways.gateway_under_test import SimulatedUnderTest, request
from tonne.money.cards.gateways.card import ChargeOutcome, ChargeResult, RefundOutcome, StoredCard
from tonne.money.cards.gateways.card_simulated import SIMULATED_CARDS, SimulatedCard, SimulatedCardGateway
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, new_id

RECOVERING, ANSWER_LOST, REQUEST_LOST = "4000000000000341", "4000000000000259", "4000000000000267"


@pytest.fixture
def gateway(db: Database) -> SimulatedCardGateway:
    return SimulatedCardGateway(db)


@pytest.fixture
async def another_worker(db: Database, server: Server, settings: Settings) -> AsyncIterator[SimulatedCardGateway]:
    """A gateway with its own connections to the same database."""
    async with db.connection() as connection:
        name = await connection.fetchval("SELECT current_database()")
    other = await Database(server.url(name), settings).open()
    yield SimulatedCardGateway(other)
    await other.close()


def test_every_test_card_is_a_number_with_a_description() -> None:
    numbers = [card.number for card in SIMULATED_CARDS]
    assert len(set(numbers)) == len(numbers)
    for card in SIMULATED_CARDS:
        digits = [int(digit) for digit in card.number]
        doubled = [digit * 2 - 9 * (digit > 4) for digit in digits[-2::-2]]
        assert len(digits) == 16
        assert (sum(digits[-1::-2]) + sum(doubled)) % 10 == 0, f"{card.number} has a wrong check digit"
        assert card.behaviour.endswith(".")
        assert (card.message is None) == (card.returned is ChargeOutcome.CAPTURED)


@pytest.mark.parametrize("card", SIMULATED_CARDS, ids=lambda card: card.number)
async def test_every_test_card_behaves_as_described(db: Database, card: SimulatedCard) -> None:
    subject = SimulatedUnderTest(db)
    asked = request(StoredCard("cus_1", card.number))
    charged = await subject.gateway.charge(asked)
    found = await subject.gateway.look_up(asked)
    assert (charged.kind, charged.code, charged.message) == (card.returned, card.code, card.message)
    assert found.kind is (card.recorded or ChargeOutcome.NOT_FOUND)
    assert bool(await subject.taken(asked.card)) == (card.recorded is ChargeOutcome.CAPTURED)
    described = await subject.gateway.describe(asked.card)
    assert (described.last_four, described.expires) == (card.number[-4:], card.expires)


async def test_a_card_is_declined_twice_and_then_pays(gateway: SimulatedCardGateway) -> None:
    card = StoredCard("cus_1", RECOVERING)
    attempts = [await gateway.charge(request(card)) for _ in range(4)]
    assert [attempt.kind for attempt in attempts] == ["declined", "declined", "captured", "captured"]
    assert (attempts[2].code, attempts[2].message) == (None, None)


async def test_attempts_are_counted_by_customer_and_amount_and_a_repeated_id_is_no_attempt(
    gateway: SimulatedCardGateway,
) -> None:
    first = request(StoredCard("cus_1", RECOVERING), 100)
    assert [(await gateway.charge(first)).kind for _ in range(4)] == ["declined"] * 4
    for other in (
        request(StoredCard("cus_2", RECOVERING), 100),
        request(StoredCard("cus_1", RECOVERING), 101),
        request(StoredCard("cus_1", RECOVERING), 100, "USD"),
    ):
        assert (await gateway.charge(other)).kind == "declined"
    second, third = request(first.card, 100), request(first.card, 100)
    assert [(await gateway.charge(each)).kind for each in (second, third)] == ["declined", "captured"]
    # The first result does not change.
    assert (await gateway.charge(first)).kind == "declined"


async def test_a_lost_response_is_found_and_repeating_the_id_does_not_charge_twice(db: Database) -> None:
    subject = SimulatedUnderTest(db)
    asked = request(StoredCard("cus_1", ANSWER_LOST))
    assert (await subject.gateway.charge(asked)).kind is ChargeOutcome.UNKNOWN
    found = await subject.gateway.look_up(asked)
    assert (found.kind, found.amount_minor, found.currency) == (ChargeOutcome.CAPTURED, 1999, "EUR")
    assert await subject.gateway.charge(asked) == found
    assert await subject.taken(asked.card) == [1999]


async def test_a_lost_request_is_not_recorded(gateway: SimulatedCardGateway) -> None:
    asked = request(StoredCard("cus_1", REQUEST_LOST))
    for _ in range(2):
        assert (await gateway.charge(asked)).kind is ChargeOutcome.UNKNOWN
        assert await gateway.look_up(asked) == ChargeResult(ChargeOutcome.NOT_FOUND)


async def test_workers_share_charges(gateway: SimulatedCardGateway, another_worker: SimulatedCardGateway) -> None:
    asked = request(StoredCard("cus_1", "4242424242424242"))
    charged = await gateway.charge(asked)
    assert await another_worker.look_up(asked) == charged
    assert await another_worker.charge(asked) == charged


async def test_two_workers_with_one_id_charge_once(
    db: Database, gateway: SimulatedCardGateway, another_worker: SimulatedCardGateway
) -> None:
    for _ in range(60):
        asked = request(StoredCard(new_id("cus"), "4242424242424242"))
        answers = await asyncio.gather(*(worker.charge(asked) for worker in (gateway, another_worker) * 4))
        captured = ChargeResult(ChargeOutcome.CAPTURED, answers[0].reference, 1999, "EUR", mode=Mode.TEST)
        assert answers == [captured] * 8
        assert await SimulatedUnderTest(db).taken(asked.card) == [1999]


async def test_a_charge_survives_the_rollback_of_the_callers_transaction(
    db: Database, gateway: SimulatedCardGateway
) -> None:
    asked = request(StoredCard("cus_1", "4242424242424242"))

    async def charge_and_fail() -> None:
        async with db.transaction() as tx:
            await tx.execute("SELECT 1")
            await gateway.charge(asked)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        await charge_and_fail()
    assert (await gateway.look_up(asked)).kind is ChargeOutcome.CAPTURED


async def test_a_refund_in_another_currency_fails(gateway: SimulatedCardGateway) -> None:
    charged = await gateway.charge(request(StoredCard("cus_1", "4242424242424242"), 1999, "EUR"))
    assert charged.reference
    refunded = await gateway.refund("rfd_1", charged.reference, 1999, "USD")
    assert refunded.kind is RefundOutcome.FAILED
    assert "USD" in (refunded.message or "")


async def test_an_unknown_card_number_is_not_repeated(gateway: SimulatedCardGateway) -> None:
    """It may be a real card number."""
    charged = await gateway.charge(request(StoredCard("cus_1", "4111111111111111")))
    assert charged.kind is ChargeOutcome.REFUSED
    assert "4111111111111111" not in repr(charged)
