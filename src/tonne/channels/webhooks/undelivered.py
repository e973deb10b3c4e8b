"""Which webhooks still need events up to a position."""

from collections.abc import Sequence

from tonne.platform.db.database import Connection, columns
from tonne.platform.events.store import StreamEnd

_ENDS = "unnest($1::text[], $2::mode[], $3::bigint[]) AS ends (organisation_id, mode, position)"
LOCK_WEBHOOKS = f"""
SELECT webhook.id FROM webhooks webhook JOIN {_ENDS} USING (organisation_id, mode)
WHERE webhook.deleted_at IS NULL ORDER BY webhook.organisation_id, webhook.mode, webhook.id FOR UPDATE OF webhook
"""  # noqa: S608 - only the constant above is inserted


async def lock_webhooks_any_account(tx: Connection, ends: Sequence[StreamEnd]) -> None:
    """Until the end of the transaction no webhook of these streams is rewound, and no cursor moves."""
    await tx.execute(LOCK_WEBHOOKS, *columns(ends, "organisation_id, mode, position"))


# Disabled webhooks count: their events wait until they are enabled.
FIND_UNDELIVERED = f"""
SELECT webhook.id
FROM webhooks webhook JOIN {_ENDS} USING (organisation_id, mode)
WHERE webhook.deleted_at IS NULL
  AND (webhook.cursor_position < ends.position
       OR EXISTS (SELECT FROM webhook_parked parked
                  WHERE parked.organisation_id = webhook.organisation_id AND parked.webhook_id = webhook.id
                    AND parked.position <= ends.position))
ORDER BY webhook.id
"""  # noqa: S608 - only the constant above is inserted


async def find_undelivered_any_account(connection: Connection, ends: Sequence[StreamEnd]) -> list[str]:
    """The webhooks that have not yet got, or skipped, all events up to these positions."""
    rows = await connection.fetch(FIND_UNDELIVERED, *columns(ends, "organisation_id, mode, position"))
    return [row["id"] for row in rows]
