"""Approvals by a second person: who may approve, what was approved, and whose approval counts.

A person is a user. What a user, an API key or a job requested needs the approval of one other user. A command line
without a login is nobody known: what it requested needs two users.
"""

import hashlib
import json
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, ActorKind, Mode, person_of
from tonne.selling.users.errors import ApprovalNotAllowed, SecondPersonNeeded
from tonne.selling.users.model import User, UserSession
from tonne.selling.users.personal_tokens import find_by_token
from tonne.selling.users.sign_in import APPROVAL_RECENT, is_recent

# Who changed a limit or let another person in this long ago counts as the requester.
INVOLVED = timedelta(hours=24)


class ApprovalKind(StrEnum):
    REFUND = "refund"
    RETURN = "return"
    WRITE_OFF = "write_off"
    REOPENING = "reopening"
    BANK_IBAN = "bank_iban"
    LIMIT = "limit"
    REGISTRY_REQUEST = "registry_request"


class ApprovalFactor(StrEnum):
    SECOND_FACTOR = "second_factor"
    TOKEN = "token"  # noqa: S105 - the name of a factor


class Approver(Struct, frozen=True):
    """A user who has proved that they may approve. Only the two functions below make one."""

    actor: Actor
    # Of the session in the browser, or of the personal token.
    session_id: str
    factor: ApprovalFactor


def approver_in_browser(session: UserSession, actor: Actor, now: datetime) -> Approver:
    """Raises ApprovalNotAllowed without the right, a second factor, or a sign-in of the last minutes."""
    _require_right(session.user)
    if not session.is_strong:
        raise ApprovalNotAllowed("Only a sign-in with a second factor can approve. Sign in with one.")
    if not is_recent(session, now, APPROVAL_RECENT):
        raise ApprovalNotAllowed("You signed in more than 5 minutes ago. To approve, sign in again.")
    return Approver(actor, session.id, ApprovalFactor.SECOND_FACTOR)


async def approver_by_token(
    connection: Connection, token: str, actor: Actor, *, settings: Settings, now: datetime
) -> Approver:
    """Raises ApprovalNotAllowed unless the settings allow it, and the owner of the token may approve."""
    found = await find_by_token(connection, token, now)
    if settings.approvals_by != "token" or found is None or found.user.id != person_of(str(actor)):
        raise ApprovalNotAllowed("A personal token cannot approve this. Approve it in the browser.")
    _require_right(found.user)
    return Approver(actor, found.id, ApprovalFactor.TOKEN)


def _require_right(user: User) -> None:
    if not (user.is_operator and user.may_approve):
        raise ApprovalNotAllowed


class Subject(Struct, frozen=True, kw_only=True):
    """What is to be approved. `terms` are its amount, account and reason: an approval counts for these alone."""

    kind: ApprovalKind
    id: str
    organisation_id: str | None
    mode: Mode
    requested_by: str
    terms: tuple[str, ...]

    @property
    def digest(self) -> bytes:
        document = json.dumps([self.kind, self.id, self.requested_by, *self.terms])
        return hashlib.sha256(document.encode()).digest()

    def missing(self, approvers: Collection[str]) -> int:
        """How many more people must approve it. `approvers` are those who approved these terms."""
        needed = 2 if self.requested_by.startswith(f"{ActorKind.CLI}:") else 1
        return max(0, needed - len(set(approvers)))


INSERT_APPROVAL = """
INSERT INTO approvals (kind, subject_id, digest, requested_by, approved_by, session_id, factor, at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
"""


async def approve(tx: Connection, subject: Subject, approver: Approver, now: datetime) -> int:
    """Record the approval of a locked subject. Returns how many more people must approve it.

    Raises SecondPersonNeeded for the person who requested it, counts as such, or has approved it already.
    """
    earlier = await find_approvers(tx, subject)
    person = str(approver.actor)
    if person == subject.requested_by:
        raise SecondPersonNeeded("You requested this: another person must approve it.")
    if person in earlier:
        raise SecondPersonNeeded("You have approved this: another person must approve it, too.")
    if person in await find_limit_changers(tx, subject.organisation_id, now - INVOLVED):
        raise SecondPersonNeeded(
            "You changed a limit of this organisation within the last 24 hours: another person must approve it."
        )
    for other in (subject.requested_by, *earlier):
        if await has_let_in(tx, person_of(person), person_of(other), now - INVOLVED):
            raise SecondPersonNeeded(
                "Within the last 24 hours, one of you let the other one in: another person must approve it."
            )
    values = (subject.kind, subject.id, subject.digest, subject.requested_by, person)
    await tx.execute(INSERT_APPROVAL, *values, approver.session_id, approver.factor, now)
    missing = subject.missing([*earlier, person])
    details: dict[str, Any] = {
        "requested_by": subject.requested_by,
        "session_id": approver.session_id,
        "factor": approver.factor,
    }
    details |= {"kind": subject.kind, "digest": subject.digest.hex(), "missing": missing}
    # For operators only: it names them.
    by = approver.actor.at(now)
    await audit.record(tx, None, "approval.given", by=by, subject_id=subject.id, mode=subject.mode, **details)
    return missing


class Approval(NamedTuple):
    subject_id: str
    digest: bytes
    approved_by: str


FIND_APPROVALS = """
SELECT subject_id, digest, approved_by FROM approvals WHERE kind = $1 AND subject_id = ANY ($2::text[]) ORDER BY at
"""


async def find_approvals(connection: Connection, kind: ApprovalKind, subject_ids: Sequence[str]) -> list[Approval]:
    """All that were given, also those that no longer count."""
    return [Approval(*row) for row in await connection.fetch(FIND_APPROVALS, kind, list(subject_ids))]


async def find_approvers(connection: Connection, subject: Subject) -> list[str]:
    """Who approved these terms."""
    given = await find_approvals(connection, subject.kind, [subject.id])
    return [each.approved_by for each in given if each.digest == subject.digest]


FIND_LIMIT_CHANGERS = """
SELECT DISTINCT actor FROM audit_log
WHERE organisation_id = $1 AND at > $2 AND starts_with(actor, 'user:usr_')
  AND (action IN ('account.limits_changed', 'api_key.limit_changed')
       OR action = 'account.updated' AND after ?| ARRAY['credit_limit_minor', 'refunds_by_api'])
"""


async def find_limit_changers(connection: Connection, organisation_id: str | None, after: datetime) -> set[str]:
    """The users who changed a limit of the organisation since then."""
    rows = await connection.fetch(FIND_LIMIT_CHANGERS, organisation_id, after)
    return {row["actor"] for row in rows}


# A new user, a link for a new password, a second factor that is removed, or the right to approve. The actor of a user
# who accepts an invitation is the link that somebody sent.
HAS_LET_IN = """
SELECT true FROM audit_log entry LEFT JOIN user_links link ON link.id = substr(entry.actor, 6)
WHERE entry.subject_id IN ($1, $2) AND entry.at > $3
  AND entry.action IN ('user.created', 'user.approver_changed', 'user.password_link_created',
                       'user.second_factor_disabled')
  AND coalesce(link.created_by, entry.actor) = 'user:' || CASE entry.subject_id WHEN $1 THEN $2 ELSE $1 END
LIMIT 1
"""


async def has_let_in(connection: Connection, user_id: str | None, other_id: str | None, after: datetime) -> bool:
    """Whether one of two users let the other one in since then, and so may be able to act as both."""
    if user_id is None or other_id is None:
        return False
    return await connection.fetchval(HAS_LET_IN, user_id, other_id, after) is True
