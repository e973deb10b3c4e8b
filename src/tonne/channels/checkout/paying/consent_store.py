"""SQL for what customers agreed to."""

from datetime import datetime

from tonne.channels.checkout.model import Checkout
from tonne.channels.checkout.paying.consent import WithdrawalText
from tonne.platform.db.database import Connection

ADD_TEXT = """
INSERT INTO consent_texts (version, language, text, created_at) VALUES ($1, $2, $3, $4)
ON CONFLICT (version) DO NOTHING
"""


async def add_text(tx: Connection, text: WithdrawalText, now: datetime) -> None:
    """Keep the wording, to be able to show later what was agreed to."""
    await tx.execute(ADD_TEXT, text.version, text.language, text.text, now)


SET_CONSENT = """
UPDATE checkouts SET buyer_kind = $3, consent_version = $4, consent_language = $5, consented_at = $6
WHERE account_id = $1 AND id = $2
"""


async def set_consent(tx: Connection, checkout: Checkout) -> None:
    consent = checkout.consent
    if consent is not None:
        given = (consent.buyer, consent.version, consent.language, consent.at)
        await tx.execute(SET_CONSENT, checkout.scope.account_id, checkout.id, *given)
