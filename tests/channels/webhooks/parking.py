"""Helpers for tests of parked accounts."""

from tests.channels.webhooks.stage import Hook, Stage
from tests.support.receivers import OK, Delivery, Receiver, Reply, reply
from tests.support.world import add_account
from tonne.platform.values.context import Scope
from tonne.selling.accounts.model import AccountKind


def refuse(receiver: Receiver, *event_ids: str) -> None:
    """Refuse requests that contain one of these events, and accept all others."""
    poison = set(event_ids)

    def rule(delivery: Delivery) -> Reply:
        return reply(422, b"bad event") if poison & set(delivery.event_ids) else OK

    receiver.rule = rule


async def open_third(stage: Stage) -> Scope:
    async with stage.database.transaction() as tx:
        return await add_account(tx, stage.one.organisation_id, stage.one.mode, kind=AccountKind.CLIENT_ACCOUNT)


async def until_parked(stage: Stage, hook: Hook, *accounts: Scope) -> None:
    requested = sorted(account.account_id for account in accounts)

    async def parked() -> bool:
        return [row["account_id"] for row in await stage.parked(hook)] == requested

    await stage.until(parked)


async def until_only_parked_wait(stage: Stage, hook: Hook) -> None:
    """Wait until the main stream is delivered."""

    async def done() -> bool:
        row = await stage.row(hook)
        [stream] = await stage.fetch(
            "SELECT last_position FROM event_streams WHERE organisation_id = $1 AND mode = $2",
            row["organisation_id"],
            row["mode"],
        )
        return bool(row["cursor_position"] == stream["last_position"])

    await stage.until(done)


def accepted(receiver: Receiver, *, but: str) -> list[str]:
    """The events of requests without `but`, in order."""
    return [
        event_id for delivery in receiver.deliveries for event_id in delivery.event_ids if but not in delivery.event_ids
    ]
