"""The sealed secrets with which offset links verify signed queries."""

from tonne.platform.keys.sealed import SealedSecrets

SEALED = SealedSecrets(
    owner="offset link",
    action="offset_link.secret_resealed",
    table="offset_links",
    key=("account_id", "id"),
    column="secret_box",
    older={"old_secret_box": "old_secret_until"},
    is_replaced_by_organisation=True,
)
