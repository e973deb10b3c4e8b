"""The card of an account: kept by the gateway; here are its names for it, and what a person may see."""

from collections.abc import Mapping
from datetime import datetime

from tonne.accounts import audit
from tonne.base.ids import new_id
from tonne.base.scope import Mode, Scope
from tonne.base.settings import Settings
from tonne.cards import store
from tonne.cards.errors import CardGatewayUnavailable, CardNotStored, CardUnknown, StripeNotSetUp
from tonne.cards.open_charges import GATEWAY_OF
from tonne.db.pool import Connection, Database
from tonne.gateways.card import Card, CardGateway, CardNotDescribed, CardNotFound, StoredCard
from tonne.gateways.card_simulated import SimulatedCardGateway
from tonne.gateways.card_stripe import StripeCardGateway


def card_gateways(database: Database, settings: Settings) -> dict[str, CardGateway]:
    """Those that are set up, by name. The caller closes them."""
    gateways: dict[str, CardGateway] = {"simulated": SimulatedCardGateway(database)}
    if settings.stripe_secret_key:
        gateways["stripe"] = StripeCardGateway(settings.stripe_secret_key, settings.stripe_api_base or None)
    return gateways


async def describe_card(
    gateways: Mapping[str, CardGateway], mode: Mode, customer: str | None, method: str
) -> StoredCard:
    """Ask the gateway of that mode about a card. It takes the network: not while a transaction is open."""
    if mode is Mode.TEST:
        customer = customer or new_id("cus")
    elif method.replace(" ", "").isdigit():
        # Not repeated: it may well be a card number, which must not get into anybody's terminal log.
        raise CardUnknown("Give the id of the payment method at Stripe (pm_…), never the number of a card.")
    elif customer is None:
        raise CardUnknown("Say with --customer to which customer at Stripe (cus_…) the card belongs.")
    gateway = gateways.get(GATEWAY_OF[mode])
    if gateway is None:
        raise StripeNotSetUp
    try:
        return await gateway.describe(Card(customer, method))
    except CardNotFound as error:
        raise CardUnknown(str(error)) from error
    except CardNotDescribed as error:
        raise CardGatewayUnavailable(f"The card gateway cannot be asked now: {error}") from error


async def store_card(tx: Connection, scope: Scope, card: StoredCard, *, actor: str, now: datetime) -> None:
    """In place of the one that was there. A charge that is under way stays with the old one."""
    await store.store_card(tx, scope, card, gateway=GATEWAY_OF[scope.mode], now=now)
    await _record(tx, scope, "card.stored", card.last_four, actor=actor, now=now)


async def require_card(connection: Connection, scope: Scope) -> StoredCard:
    card = await store.find_card(connection, scope)
    if card is None:
        raise CardNotStored
    return card


async def remove_card(tx: Connection, scope: Scope, *, actor: str, now: datetime) -> None:
    """Orders that are due afterwards fail for want of a card; the gateway keeps what it knows of it."""
    last_four = await store.remove_card(tx, scope)
    if last_four is None:
        raise CardNotStored
    await _record(tx, scope, "card.removed", last_four, actor=actor, now=now)


async def _record(tx: Connection, scope: Scope, action: str, last_four: str, *, actor: str, now: datetime) -> None:
    await audit.record(
        tx,
        scope.organisation_id,
        actor=actor,
        action=action,
        subject_id=scope.account_id,
        at=now,
        last_four=last_four,
    )
