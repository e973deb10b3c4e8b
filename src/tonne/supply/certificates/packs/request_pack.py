"""Ask for an audit pack. The worker makes it."""

from datetime import date, datetime, timedelta

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Actor, Mode, Scope, new_id
from tonne.selling.accounts.store import lock_organisation_mode
from tonne.supply.certificates.packs import model
from tonne.supply.certificates.packs.store import count_waiting, delete_pack, insert_pack, list_numbers

MOST_WAITING = 3
KEPT = timedelta(days=7)


async def request_pack(
    tx: Connection, organisation_id: str, mode: Mode, days: tuple[date, date], *, actor: Actor, now: datetime
) -> model.AuditPack:
    """`days` are the first and the last day of issue."""
    found = await list_numbers(tx, organisation_id, mode, days, limit=model.MOST_CERTIFICATES + 1)
    if not found:
        raise model.PackEmpty(field="first_day")
    if len(found) > model.MOST_CERTIFICATES:
        raise model.PackTooLarge(field="last_day")
    await lock_organisation_mode(tx, Scope(organisation_id, "", mode))
    if await count_waiting(tx, organisation_id, mode) >= MOST_WAITING:
        raise model.PackLimitReached
    pack = model.AuditPack(
        organisation_id=organisation_id,
        mode=mode,
        id=new_id("pck"),
        first_day=days[0],
        last_day=days[1],
        status=model.PackStatus.WAITING,
        done=0,
        total=None,
        bytes=None,
        failures=0,
        created_at=now,
        expires_at=now + KEPT,
    )
    await insert_pack(tx, pack, str(actor))
    values = {"first_day": str(days[0]), "last_day": str(days[1])}
    await audit.record(
        tx, organisation_id, "audit_pack.requested", actor=actor, at=now, subject_id=pack.id, mode=mode, after=values
    )
    return pack


async def remove_pack(tx: Connection, pack: model.AuditPack, *, actor: Actor, now: datetime) -> None:
    await delete_pack(tx, pack)
    await audit.record(
        tx, pack.organisation_id, "audit_pack.deleted", actor=actor, at=now, subject_id=pack.id, mode=pack.mode
    )
