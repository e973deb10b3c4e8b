"""The sealed secrets of authenticator apps."""

from tonne.platform.keys.sealed import SealedSecrets

SEALED = SealedSecrets(
    owner="authenticator app of user",
    action="user.secret_resealed",
    table="users",
    column="totp_box",
    has_scope=False,
)
