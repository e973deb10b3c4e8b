"""The sealed tokens of the links to the pages of cards."""

from tonne.platform.keys.sealed import SealedSecrets

SEALED = SealedSecrets(
    owner="card page of account",
    action="card.link_resealed",
    table="card_links",
    id="account_id",
    key=("account_id",),
    column="token_box",
)
