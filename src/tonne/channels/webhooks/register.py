"""Register, change and delete webhooks. Every change is in the audit log."""

from collections.abc import Sequence
from typing import Any

from tonne.channels.webhooks import registration_store
from tonne.channels.webhooks.delivery import parked_store
from tonne.channels.webhooks.errors import (
    EventNotParked,
    OverlapPromised,
    WebhookAccountInvalid,
    WebhookLimitReached,
    WebhookUrlInvalid,
)
from tonne.channels.webhooks.model import Webhook, WebhookRequest, in_order
from tonne.channels.webhooks.sending.addresses import AddressRefused
from tonne.channels.webhooks.sending.sender import Sender
from tonne.channels.webhooks.sending.signing import new_secret
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.events.log import lock_streams
from tonne.platform.events.notification import Stream
from tonne.platform.events.optional_events import set_recorded_types
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.values.context import By, Scope, new_id, replace, same_named, to_wire

MAX_WEBHOOKS = 16
_FOR_DEVELOPMENT = "To receive events on your own machine, run `tonne listen`."


async def check_url(sender: Sender, url: str) -> None:
    """Call it before the transaction: it resolves the host name over the network."""
    try:
        await sender.check_receiver(url)
    except (ValueError, AddressRefused) as error:
        raise WebhookUrlInvalid(f"The url cannot be used: {error}. {_FOR_DEVELOPMENT}", field="url") from error
    except (OSError, TimeoutError) as error:
        message = f"The url cannot be used: its host cannot be resolved. {_FOR_DEVELOPMENT}"
        raise WebhookUrlInvalid(message, field="url") from error


async def register_webhook(
    tx: Connection,
    scope: Scope,
    requested: WebhookRequest,
    *,
    box: SecretBox,
    by: By,
) -> tuple[Webhook, str]:
    """The secret is returned only here and by a rotation."""
    await _check_accounts(tx, scope, requested.account_ids)
    if await registration_store.count_locked(tx, scope) >= MAX_WEBHOOKS:
        raise WebhookLimitReached
    secret = new_secret()
    webhook = same_named(
        Webhook,
        requested,
        organisation_id=scope.organisation_id,
        mode=scope.mode,
        id=new_id("wh"),
        enabled=True,
        account_ids=tuple(requested.account_ids),
        created_at=by.at,
        secret_last_four=secret[-4:],
        event_types=in_order(requested.event_types),
    )
    await registration_store.insert_webhook(tx, webhook, box.seal(secret, webhook.id))
    await _record(tx, webhook, "webhook.registered", by=by, after=_audited_values(webhook))
    await _record_named_types(tx, webhook)
    return webhook, secret


async def change_webhook(tx: Connection, scope: Scope, old: Webhook, changed: Webhook, *, by: By) -> Webhook:
    """With the webhook locked, as `old`. A request in flight does not move the cursor: its events are sent again.

    Returns the webhook as it is stored. One that was disabled goes on from its cursor when it is enabled.
    """
    await _check_accounts(tx, scope, changed.account_ids)
    if changed.enabled:
        changed = replace(changed, disabled_reason=None)
    cursor = await registration_store.update_webhook(tx, changed)
    await parked_store.drop_out_of_scope(tx, changed, cursor, by=str(by.actor))
    if changed.event_types != old.event_types:
        await parked_store.skip_other_types(tx, changed, cursor, by=str(by.actor))
    before, after = _audited_values(old), _audited_values(changed)
    await _record(tx, changed, "webhook.changed", by=by, before=before, after=after)
    if changed.event_types != old.event_types:
        await _record_named_types(tx, changed)
    return changed


async def remove_webhook(tx: Connection, scope: Scope, webhook_id: str, *, by: By) -> None:
    webhook = await registration_store.lock_webhook(tx, scope, webhook_id)
    await registration_store.delete_webhook(tx, webhook)
    await _record(tx, webhook, "webhook.deleted", by=by, before=_audited_values(webhook))
    await _record_named_types(tx, webhook)


async def rotate_secret(
    tx: Connection, webhook: Webhook, overlap_s: int, *, box: SecretBox, by: By
) -> tuple[Webhook, str]:
    """For `overlap_s` seconds both secrets sign, so that the receiver can switch without refusing a request.

    At most three sign at a time: raises `OverlapPromised` rather than end an overlap early. 0 ends all of them.
    """
    if overlap_s and (until := await registration_store.find_promised_overlap(tx, webhook)):
        raise OverlapPromised(until=to_wire(until))
    secret = new_secret()
    rotated = replace(webhook, secret_last_four=secret[-4:])
    await registration_store.rotate_secret(tx, rotated, box.seal(secret, webhook.id), overlap_s)
    details = {"secret_last_four": rotated.secret_last_four, "overlap_s": overlap_s}
    await _record(tx, rotated, "webhook.secret_rotated", by=by, **details)
    return rotated, secret


async def skip_event(tx: Connection, webhook: Webhook, event_id: str, *, by: By) -> None:
    """Give up the event of a parked account. The skip is recorded."""
    accounts = await parked_store.list_parked(tx, webhook)
    parked = next((account for account in accounts if account.event_id == event_id), None)
    if parked is None:
        raise EventNotParked(field="event_id")
    await parked_store.skip_parked(tx, webhook, parked, by=str(by.actor), at=by.at)
    await _record(tx, webhook, "webhook.event_skipped", by=by, event_id=event_id)


async def rewind(tx: Connection, webhook: Webhook, before_position: int, *, by: By) -> None:
    await registration_store.rewind(tx, webhook, before_position)
    await _record(tx, webhook, "webhook.rewound", by=by, before_position=before_position)


async def _check_accounts(tx: Connection, scope: Scope, account_ids: Sequence[str]) -> None:
    for account_id in await registration_store.find_foreign_accounts(tx, scope, account_ids):
        raise WebhookAccountInvalid(field=f"account_ids[{list(account_ids).index(account_id)}]")


async def _record_named_types(tx: Connection, webhook: Webhook) -> None:
    """Call it last: it locks the stream, so that of two changes at once the second one sees the types of the first."""
    await lock_streams(tx, [Stream(webhook.organisation_id, webhook.mode)])
    types = await registration_store.list_named_types(tx, webhook)
    await set_recorded_types(tx, webhook.organisation_id, webhook.mode, types)


async def _record(tx: Connection, webhook: Webhook, action: str, *, by: By, **values: Any) -> None:
    await audit.record(tx, webhook, action, by=by, subject_id=webhook.id, **values)


def _audited_values(webhook: Webhook) -> audit.Values:
    return {
        "url": webhook.url,
        "enabled": webhook.enabled,
        "account_ids": list(webhook.account_ids),
        "event_types": list(webhook.delivered_types),
        "disable_on_gone": webhook.disable_on_gone,
        "standard_webhooks": webhook.standard_webhooks,
    }
