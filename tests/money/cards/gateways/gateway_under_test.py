"""Gateways under test: cards with a given behaviour, and what the gateway captured and refunded."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from enum import Enum
from typing import Protocol

import stripe

from tonne.money.cards.gateways.card import CardGateway, ChargeRequest, HostedPage, StoredCard
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.gateways.card_stripe import StripeCardGateway
from tonne.platform.db.database import Database
from tonne.platform.values.context import Mode, new_id

KEY, LIVE_KEY = "sk_test_key", "sk_live_key"


class Behaviour(Enum):
    GOOD = "4242424242424242"
    SOFT = "4000000000009995"
    HARD = "4000000000009979"
    AUTHENTICATION = "4000002500003155"


class GatewayUnderTest(Protocol):
    gateway: CardGateway

    async def card(self, behaviour: Behaviour = Behaviour.GOOD) -> StoredCard:
        """A card of a new customer."""

    def unknown_card(self, customer: str) -> StoredCard: ...

    async def taken(self, card: StoredCard) -> list[int]:
        """The captured amounts of the customer, in the units of the gateway."""

    async def given_back(self, reference: str) -> int: ...


def request(
    source: StoredCard | HostedPage, amount_minor: int = 1999, currency: str = "EUR", charge_id: str = ""
) -> ChargeRequest:
    return ChargeRequest(
        id=charge_id or new_id("chg"),
        order_id="ord_1",
        account_id="acc_1",
        mode=Mode.TEST,
        amount_minor=amount_minor,
        currency=currency,
        source=source,
    )


class SimulatedUnderTest:
    def __init__(self, database: Database) -> None:
        self._database = database
        self.gateway: CardGateway = SimulatedCardGateway(database)

    async def card(self, behaviour: Behaviour = Behaviour.GOOD) -> StoredCard:
        return StoredCard(new_id("cus"), behaviour.value)

    def unknown_card(self, customer: str) -> StoredCard:
        return StoredCard(customer, "4111111111111111")

    async def taken(self, card: StoredCard) -> list[int]:
        async with self._database.connection() as connection:
            rows = await connection.fetch(
                "SELECT amount_minor FROM simulated_charges WHERE customer = $1 AND status = 'captured'", card.customer
            )
        return [row["amount_minor"] for row in rows]

    async def given_back(self, reference: str) -> int:
        async with self._database.connection() as connection:
            back: int = await connection.fetchval(
                "SELECT refunded_minor FROM simulated_charges WHERE reference = $1", reference
            )
        return back


# localstripe refuses to attach the cards that Stripe declines, and declines one number only. The decline code is in the
# metadata.
_DECLINED = "4000000000000341"
_LOCALSTRIPE = {
    Behaviour.GOOD: (Behaviour.GOOD.value, {}),
    Behaviour.SOFT: (_DECLINED, {"decline_code": "insufficient_funds"}),
    Behaviour.HARD: (_DECLINED, {"decline_code": "stolen_card"}),
    Behaviour.AUTHENTICATION: (Behaviour.AUTHENTICATION.value, {}),
}


class StripeUnderTest:
    """Prepares and inspects objects through the SDK, bypassing our gateway."""

    def __init__(self, url: str, key: str) -> None:
        self.gateway: CardGateway = StripeCardGateway(key, url)
        self.http = stripe.AIOHTTPClient()
        self._sdk = stripe.StripeClient(key, http_client=self.http, base_addresses={"api": url}).v1

    async def card(self, behaviour: Behaviour = Behaviour.GOOD) -> StoredCard:
        number, metadata = _LOCALSTRIPE[behaviour]
        customer = await self._sdk.customers.create_async({"name": "Ada"})
        method = await self._sdk.payment_methods.create_async(
            {
                "type": "card",
                "card": {"number": number, "exp_month": 4, "exp_year": 2049, "cvc": "123"},
                "metadata": metadata,
            }
        )
        await self._sdk.payment_methods.attach_async(method.id, {"customer": customer.id})
        return StoredCard(customer.id, method.id)

    def unknown_card(self, customer: str) -> StoredCard:
        return StoredCard(customer, "pm_nobodyknows")

    async def taken(self, card: StoredCard) -> list[int]:
        intents = await self._sdk.payment_intents.list_async({"customer": card.customer, "limit": 100})
        return [intent.amount for intent in intents.data if intent.status == "succeeded"]

    async def given_back(self, reference: str) -> int:
        refunds = await self._sdk.refunds.list_async({"payment_intent": reference, "limit": 100})
        return sum(refund.amount for refund in refunds.data)


@asynccontextmanager
async def stripe_under_test(url: str, key: str = KEY) -> AsyncIterator[StripeUnderTest]:
    subject = StripeUnderTest(url, key)
    try:
        yield subject
    finally:
        await subject.gateway.close()
        await subject.http.close_async()  # type: ignore[no-untyped-call]  # the SDK has no annotation
