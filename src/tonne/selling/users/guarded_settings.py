"""Settings that one person must not change alone: where customers send their money, and what needs no second person.

The service notes what it is configured with. A change waits until two users have approved it, and until then the old
value applies everywhere, also to commands. With fewer than two users who may approve, it applies at once, but not
within a week after there were two: otherwise one of them could disable the other and change what both must approve.
"""

from datetime import datetime, timedelta
from typing import Any, ClassVar

import msgspec
from msgspec import Struct

from tonne.platform.db.batches import RowJobWithSettings
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import ActorKind, Mode, job_actor
from tonne.selling.users.approvals import ApprovalKind, Approver, Subject, approve

KIND_OF_SETTING = {
    **dict.fromkeys(("bank_iban", "bank_accounts"), ApprovalKind.BANK_IBAN),
    **dict.fromkeys(("refund_approval_above", "return_approval_above", "payment_tolerance"), ApprovalKind.LIMIT),
}
_ACTOR = job_actor("note_settings")
# Who changed the configuration is not known, as on a command line without a login.
_REQUESTER = f"{ActorKind.CLI}:configuration"


class GuardedSetting(Struct, frozen=True):
    """`value` applies. `requested` is another one that the service is configured with."""

    name: str
    value: str
    requested: str | None
    requested_at: datetime | None

    @property
    def subject(self) -> Subject | None:
        """What is to be approved, if something is."""
        if self.requested is None:
            return None
        return Subject(
            kind=KIND_OF_SETTING[self.name],
            id=self.name,
            organisation_id=None,
            mode=Mode.LIVE,
            requested_by=_REQUESTER,
            terms=(self.value, self.requested),
        )


LIST_GUARDED = "SELECT name, value, requested, requested_at FROM guarded_settings ORDER BY name"


async def list_guarded(connection: Connection) -> list[GuardedSetting]:
    return [GuardedSetting(**row) for row in await connection.fetch(LIST_GUARDED)]


async def approved_settings(connection: Connection, settings: Settings) -> Settings:
    """The settings with the values that apply, whatever this process is configured with."""
    values = {each.name: each.value for each in await list_guarded(connection)}
    typed = {name: type(getattr(settings, name))(value) for name, value in values.items()}
    return msgspec.structs.replace(settings, **typed)


# $4: whether two users could approve a change.
NOTE_SETTINGS = """
INSERT INTO guarded_settings AS known (name, value)
SELECT name, value FROM unnest($1::text[], $2::text[]) AS configured (name, value)
ON CONFLICT (name) DO UPDATE
SET value = CASE WHEN $4 THEN known.value ELSE excluded.value END,
    requested = CASE WHEN $4 THEN nullif(excluded.value, known.value) END,
    requested_at = CASE WHEN $4 AND excluded.value <> known.value THEN $3::timestamptz END
WHERE coalesce(known.requested, known.value) <> excluded.value OR known.requested IS NOT NULL AND NOT $4
RETURNING name, value, requested
"""
REMEMBERED = timedelta(days=7)
# $1: since when it counts that there were two.
WERE_TWO = "SELECT EXISTS (SELECT FROM guarded_settings WHERE guarded_at > $1)"
COUNT_APPROVERS = "SELECT count(*) FROM users WHERE may_approve AND disabled_at IS NULL"
NOTE_TWO = """
UPDATE guarded_settings SET guarded_at = $1
WHERE guarded_at IS NULL OR guarded_at <= $1::timestamptz - interval '1 hour'
"""


class NoteSettings(RowJobWithSettings, frozen=True):
    EVERY_S: ClassVar[int] = 30

    async def run_once(self) -> bool:
        """Compare what the service is configured with with what applies. Never says that there is more to do."""
        names = list(KIND_OF_SETTING)
        values = [str(getattr(self.settings, name)) for name in names]
        now = self.clock()
        async with self.database.transaction() as tx:
            are_two = await tx.fetchval(COUNT_APPROVERS) > 1
            is_guarded = are_two or await tx.fetchval(WERE_TWO, now - REMEMBERED)
            for row in await tx.fetch(NOTE_SETTINGS, names, values, now, is_guarded):
                details: dict[str, Any] = {"applies": row["value"], "requested": row["requested"]}
                await audit.record(tx, None, "setting.noted", by=_ACTOR.at(now), subject_id=row["name"], **details)
            if are_two:
                await tx.execute(NOTE_TWO, now)
        return False


LOCK_GUARDED = """
SELECT name, value, requested, requested_at FROM guarded_settings WHERE name = $1 FOR NO KEY UPDATE
"""
APPLY_REQUESTED = """
UPDATE guarded_settings SET value = requested, requested = NULL, requested_at = NULL WHERE name = $1
"""


async def approve_setting(tx: Connection, name: str, *, approver: Approver, now: datetime) -> bool | None:
    """Whether the new value applies now, or another person must approve it, too. None if nothing waits.

    Raises SecondPersonNeeded.
    """
    row = await tx.fetchrow(LOCK_GUARDED, name)
    subject = None if row is None else GuardedSetting(**row).subject
    if subject is None:
        return None
    if await approve(tx, subject, approver, now):
        return False
    await tx.execute(APPLY_REQUESTED, name)
    before, after = subject.terms
    changed: dict[str, Any] = {"before": {"value": before}, "after": {"value": after}}
    await audit.record(tx, None, "setting.changed", by=approver.actor.at(now), subject_id=name, **changed)
    return True
