"""The sealed private keys with which the operator signs."""

from tonne.platform.keys.sealed import SealedSecrets

SEALED = SealedSecrets(
    owner="signing key",
    action="signing_key.resealed",
    table="signing_keys",
    column="private_box",
    in_use="retired_at IS NULL",
    has_scope=False,
)
