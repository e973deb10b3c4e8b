"""The sealed responses to requests with an idempotency key."""

from tonne.platform.keys.sealed import SealedSecrets

SEALED = SealedSecrets(
    owner="response to a request",
    action="idempotent_response.resealed",
    table="idempotent_responses",
    key=("owner_id", "mode", "route", "key_digest"),
    column="response_box",
)
