"""Acting as a customer: an operator looks at the dashboard of an organisation.

Read-only, for 30 minutes, in one session, with a reason that the organisation sees.
"""

from datetime import datetime

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Actor, new_id
from tonne.platform.values.errors import Kind, TonneError
from tonne.selling.accounts.lookup import require_organisation
from tonne.selling.users import act_as_store
from tonne.selling.users.act_as_store import LASTS, ActAsPeriod
from tonne.selling.users.model import UserSession

MAX_REASON = 500


class ActAsReadOnly(TonneError, kind=Kind.FORBIDDEN, code="act_as_read_only"):
    """An operator who looks at an organisation's dashboard tries to change something.

    Members of the organisation can change it.
    """

    message = "You are looking at this dashboard as the operator: you can change nothing here."


async def start_acting(
    tx: Connection, session: UserSession, organisation_id: str, reason: str, *, actor: Actor, now: datetime
) -> None:
    """Ends the period before, if there is one. Raises an error if there is no such organisation."""
    await require_organisation(tx, organisation_id)
    await stop_acting(tx, session, actor=actor, now=now)
    period_id = new_id("act")
    await act_as_store.insert_period(tx, period_id, organisation_id, session, reason, now=now)
    await audit.record(
        tx,
        organisation_id,
        "operator.act_as_started",
        actor=actor,
        at=now,
        subject_id=period_id,
        after={"reason": reason, "expires_at": (now + LASTS).isoformat()},
    )


async def stop_acting(tx: Connection, session: UserSession, *, actor: Actor, now: datetime) -> str | None:
    """End the period of this session, if it has not expired. Returns the id of its organisation."""
    organisation_id: str | None = None
    for row in await act_as_store.end_periods_any_account(tx, session.id, now):
        organisation_id = row["organisation_id"]
        await audit.record(tx, organisation_id, "operator.act_as_ended", actor=actor, at=now, subject_id=row["id"])
    return organisation_id


async def find_acting(
    connection: Connection, organisation_id: str, session: UserSession, now: datetime
) -> ActAsPeriod | None:
    """The period in which this session may see the organisation. Only of operators with a second factor."""
    if not session.user.is_operator or not session.is_strong:
        return None
    return await act_as_store.find_period(connection, organisation_id, session.id, now)
