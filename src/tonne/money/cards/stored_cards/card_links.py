"""The page on which the payer of an account confirms payments and updates the card."""

from datetime import datetime

from tonne.money.cards.stored_cards.card_link_store import lock_card_link, set_card_link_token
from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.link_token import hash_link_token, new_link_token
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope


async def card_page_url(tx: Connection, scope: Scope, *, box: SecretBox, settings: Settings, now: datetime) -> str:
    """The URL of the account's page: always the same, unless its key was lost."""
    sealed, token = await lock_card_link(tx, scope), None
    if sealed is not None:
        try:
            token = box.open(sealed, scope.account_id)
        except SecretUnreadable:
            token = None
    if token is None:
        token = new_link_token()
        await set_card_link_token(
            tx, scope, token_hash=hash_link_token(token), token_box=box.seal(token, scope.account_id), now=now
        )
    return f"{settings.base_url}/card/{token}"
