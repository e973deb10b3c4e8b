"""The sealed tokens of checkouts that the API created."""

from tonne.platform.keys.sealed import SealedSecrets

SEALED = SealedSecrets(
    owner="checkout",
    action="checkout.token_resealed",
    table="checkouts",
    key=("account_id", "id"),
    column="token_box",
    in_use="status <> 'closed'",
)
