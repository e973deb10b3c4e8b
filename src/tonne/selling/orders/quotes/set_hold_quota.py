"""Grant an account or an organisation a quota of supply that its quotes may hold."""

from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import MAX_GRAMS, MassUnit, format_tonnes, parse_decimal, to_grams
from tonne.platform.values.context import Actor, Mode
from tonne.selling.orders.quotes import hold_quota_store
from tonne.selling.orders.quotes.errors import HoldQuotaInvalid

NONE = "none"


def read_quota(text: str) -> int | None:
    """Tonnes as text in grams; None for `none`. Raises HoldQuotaInvalid."""
    if text.strip() == NONE:
        return None
    number = parse_decimal(text.strip())
    grams = 0 if number is None else to_grams(number, MassUnit.T)
    if not 1 <= grams <= MAX_GRAMS:
        raise HoldQuotaInvalid
    return grams


async def set_hold_quota(
    tx: Connection,
    organisation_id: str,
    subject_id: str,
    mode: Mode,
    quota_grams: int | None,
    *,
    actor: Actor,
    now: datetime,
) -> None:
    """None takes the quota away. Quotes that hold supply keep it until they expire.

    `subject_id` is an account of the organisation, or the organisation itself. Takes effect within seconds.
    """
    old = await hold_quota_store.find_quota_grams(tx, organisation_id, subject_id, mode)
    if old == quota_grams:
        return
    if quota_grams is None:
        await hold_quota_store.delete_quota(tx, organisation_id, subject_id, mode)
    else:
        await hold_quota_store.set_quota_grams(tx, organisation_id, subject_id, mode, quota_grams)
    await audit.record(
        tx,
        organisation_id,
        "hold_quota.changed",
        actor=actor,
        at=now,
        subject_id=subject_id,
        mode=mode,
        before={"quota": _text(old)},
        after={"quota": _text(quota_grams)},
    )


def _text(grams: int | None) -> str | None:
    return None if grams is None else f"{format_tonnes(grams)} t"
