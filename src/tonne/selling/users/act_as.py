"""Acting as a customer: an operator looks at the dashboard of an organisation.

Read-only, for 30 minutes, in one session, with a reason that the organisation sees.
"""

from datetime import datetime, timedelta

import asyncpg
from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, new_id
from tonne.platform.values.errors import Kind, TonneError
from tonne.selling.accounts.lookup import require_organisation
from tonne.selling.users.model import Membership, Role, UserSession

LASTS = timedelta(minutes=30)


class ActAsPeriod(Struct, frozen=True, kw_only=True):
    id: str
    organisation_id: str
    organisation_name: str
    # Empty if the user was deleted.
    operator_name: str
    reason: str
    started_at: datetime
    expires_at: datetime
    ended_at: datetime | None

    @property
    def membership(self) -> Membership:
        """What the operator may see."""
        return Membership(self.organisation_id, self.organisation_name, Role.READ_ONLY)


INSERT_PERIOD = """
INSERT INTO act_as_periods (id, organisation_id, user_id, session_id, reason, started_at, expires_at)
VALUES ($1, $2, $3, $4, $5, $6, $7)
"""


async def insert_period(
    tx: Connection, period_id: str, organisation_id: str, session: UserSession, reason: str, *, now: datetime
) -> None:
    values = (period_id, organisation_id, session.user.id, session.id, reason, now, now + LASTS)
    await tx.execute(INSERT_PERIOD, *values)


END_PERIODS = """
UPDATE act_as_periods SET ended_at = $2
WHERE session_id = $1 AND ended_at IS NULL AND expires_at > $2 RETURNING id, organisation_id
"""


async def end_periods_any_account(tx: Connection, session_id: str, now: datetime) -> list[asyncpg.Record]:
    return await tx.fetch(END_PERIODS, session_id, now)


_PERIOD = """
act_as_periods.id, organisation_id, organisations.name AS organisation_name, coalesce(users.name, '') AS operator_name,
reason, started_at, expires_at, ended_at
"""
FIND_PERIOD = f"""
SELECT {_PERIOD} FROM act_as_periods JOIN organisations ON organisations.id = organisation_id
LEFT JOIN users ON users.id = user_id
WHERE organisation_id = $1 AND session_id = $2 AND ended_at IS NULL AND expires_at > $3
ORDER BY started_at DESC LIMIT 1
"""  # noqa: S608 - columns above


async def find_period(
    connection: Connection, organisation_id: str, session_id: str, now: datetime
) -> ActAsPeriod | None:
    """The period in which this session may see the organisation."""
    row = await connection.fetchrow(FIND_PERIOD, organisation_id, session_id, now)
    return None if row is None else ActAsPeriod(**row)


LIST_PERIODS = f"""
SELECT {_PERIOD} FROM act_as_periods JOIN organisations ON organisations.id = organisation_id
LEFT JOIN users ON users.id = user_id
WHERE organisation_id = $1 ORDER BY started_at DESC LIMIT $2
"""  # noqa: S608 - columns above


async def list_periods(connection: Connection, organisation_id: str, limit: int = 10) -> list[ActAsPeriod]:
    """The newest first, for the organisation."""
    return [ActAsPeriod(**row) for row in await connection.fetch(LIST_PERIODS, organisation_id, limit)]


MAX_REASON = 500


class ActAsReadOnly(TonneError, kind=Kind.FORBIDDEN, code="act_as_read_only"):
    """An operator who looks at an organisation's dashboard tries to change something.

    Members of the organisation can change it.
    """

    message = "You are looking at this dashboard as the operator: you can change nothing here."


async def start_acting(tx: Connection, session: UserSession, organisation_id: str, reason: str, *, by: By) -> None:
    """Ends the period before, if there is one. Raises an error if there is no such organisation."""
    await require_organisation(tx, organisation_id)
    await stop_acting(tx, session, by=by)
    period_id = new_id("act")
    await insert_period(tx, period_id, organisation_id, session, reason, now=by.at)
    await audit.record(
        tx,
        organisation_id,
        "operator.act_as_started",
        by=by,
        subject_id=period_id,
        after={"reason": reason, "expires_at": (by.at + LASTS).isoformat()},
    )


async def stop_acting(tx: Connection, session: UserSession, *, by: By) -> str | None:
    """End the period of this session, if it has not expired. Returns the id of its organisation."""
    organisation_id: str | None = None
    for row in await end_periods_any_account(tx, session.id, by.at):
        organisation_id = row["organisation_id"]
        await audit.record(tx, organisation_id, "operator.act_as_ended", by=by, subject_id=row["id"])
    return organisation_id


async def find_acting(
    connection: Connection, organisation_id: str, session: UserSession, now: datetime
) -> ActAsPeriod | None:
    """The period in which this session may see the organisation. Only of operators with a second factor."""
    if not session.user.is_operator or not session.is_strong:
        return None
    return await find_period(connection, organisation_id, session.id, now)
