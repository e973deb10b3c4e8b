"""The sealed signing secrets of webhooks. Deleted webhooks keep theirs, but nothing uses it."""

from tonne.platform.keys.sealed import SealedSecrets

SEALED = SealedSecrets(
    owner="webhook",
    action="webhook.secret_resealed",
    table="webhooks",
    key=("organisation_id", "id"),
    column="secret_box",
    older={"old_secret_box": "old_secret_until", "older_secret_box": "older_secret_until"},
    in_use="deleted_at IS NULL",
    is_replaced_by_organisation=True,
)
