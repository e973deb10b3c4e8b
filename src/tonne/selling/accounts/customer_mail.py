"""Mail to people who type in their own address, such as the customers of a checkout.

In test mode a checkout costs nothing, so anyone could use it to send mail to strangers. Test mail therefore goes only
to addresses that belong to the organisation; the rest is held in the outbox.
"""

from datetime import datetime
from email.message import EmailMessage

from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.outbox import Urgency, enqueue
from tonne.platform.values.context import Mode, Scope

HELD_REASON = "test mode: not an address of the organisation"


async def enqueue_customer_mail(
    tx: Connection,
    scope: Scope,
    email: str,
    message: EmailMessage,
    *,
    subject_id: str | None = None,
    urgency: Urgency = Urgency.NORMAL,
) -> None:
    """`subject_id` is the order or refund that the mail is about."""
    is_held = scope.mode is Mode.TEST and not await may_receive_test_mail(tx, scope.organisation_id, email)
    held_reason = HELD_REASON if is_held else None
    await enqueue(
        tx, scope.organisation_id, [email], message, held_reason=held_reason, subject_id=subject_id, urgency=urgency
    )


MAY_RECEIVE = """
SELECT EXISTS (SELECT FROM test_mail_addresses WHERE organisation_id = $1 AND lower(email) = lower($2))
    OR EXISTS (SELECT FROM organisation_admins WHERE organisation_id = $1 AND lower(email) = lower($2))
"""


async def may_receive_test_mail(connection: Connection, organisation_id: str, email: str) -> bool:
    """Whether it is the address of an admin, or one that the operator has allowed."""
    return await connection.fetchval(MAY_RECEIVE, organisation_id, email) is True


ALLOW_ADDRESS = """
INSERT INTO test_mail_addresses (organisation_id, email, created_at) VALUES ($1, lower($2), $3)
ON CONFLICT (organisation_id, email) DO NOTHING
"""


async def allow_address(tx: Connection, organisation_id: str, email: str, now: datetime) -> None:
    await tx.execute(ALLOW_ADDRESS, organisation_id, email, now)


FORBID_ADDRESS = "DELETE FROM test_mail_addresses WHERE organisation_id = $1 AND email = lower($2) RETURNING true"


async def forbid_address(tx: Connection, organisation_id: str, email: str) -> bool:
    return await tx.fetchval(FORBID_ADDRESS, organisation_id, email) is True
