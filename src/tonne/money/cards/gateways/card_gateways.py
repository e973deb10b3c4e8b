"""Which card gateways exist, and which one each mode uses."""

from tonne.money.cards.gateways.card import CardGateway
from tonne.money.cards.gateways.card_simulated import SimulatedCardGateway
from tonne.money.cards.gateways.metered_gateway import GatewayMetrics, metered
from tonne.platform.db.database import Database
from tonne.platform.db.hold import HoldWatch
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode

GATEWAY_OF: dict[Mode, str] = {Mode.LIVE: "stripe", Mode.TEST: "simulated"}
# As customers know them.
GATEWAY_NAMES = {"stripe": "Stripe", "simulated": "Stripe"}


def takes_cards(settings: Settings, mode: Mode) -> bool:
    """Whether the gateway of the mode is configured."""
    return mode is Mode.TEST or bool(settings.stripe_secret_key)


def card_gateways(
    database: Database, settings: Settings, meter: GatewayMetrics | None = None, hold: HoldWatch | None = None
) -> dict[str, CardGateway]:
    """The configured gateways by name. The caller closes them."""
    gateways: dict[str, CardGateway] = {"simulated": SimulatedCardGateway(database)}
    if settings.stripe_secret_key:
        # Imported only if it is used: the library takes time and memory.
        from tonne.money.cards.gateways.card_stripe import StripeCardGateway  # noqa: PLC0415

        live = StripeCardGateway(settings.stripe_secret_key, settings.stripe_api_base or None)
        if live.mode is not Mode.LIVE:
            raise ValueError("TONNE_STRIPE_SECRET_KEY must be a live key. Test mode uses the simulated gateway.")
        gateways[GATEWAY_OF[Mode.LIVE]] = live
    if meter is None or hold is None:
        return gateways
    return {name: metered(name, gateway, meter, hold) for name, gateway in gateways.items()}
