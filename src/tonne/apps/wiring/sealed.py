"""All sealed secrets of the database."""

from tonne.channels.checkout.links.sealed import SEALED as LINKS
from tonne.channels.checkout.sealed import SEALED as CHECKOUTS
from tonne.channels.webhooks.sealed import SEALED as WEBHOOKS
from tonne.money.cards.stored_cards.sealed import SEALED as CARD_LINKS
from tonne.platform.keys.replays.sealed import SEALED as IDEMPOTENT_RESPONSES
from tonne.platform.keys.sealed import SealedSecrets
from tonne.platform.keys.signing.sealed import SEALED as SIGNING_KEYS
from tonne.selling.orders.mails.order_links import SEALED as ORDER_LINKS
from tonne.selling.users.second_factor.sealed import SEALED as AUTHENTICATOR_APPS

ALL_SEALED: tuple[SealedSecrets, ...] = (
    WEBHOOKS,
    LINKS,
    CHECKOUTS,
    ORDER_LINKS,
    CARD_LINKS,
    AUTHENTICATOR_APPS,
    SIGNING_KEYS,
    IDEMPOTENT_RESPONSES,
)
