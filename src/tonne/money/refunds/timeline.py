"""The refunds and disputes of an order."""

from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import Scope
from tonne.platform.values.timeline import TimelineEntry

LIST_REFUNDS_OF_ORDER = """
SELECT id, method, amount_minor, currency, purpose, reason, state, attempt, reference, message, requested_by,
       approved_by, created_at, settled_at, next_attempt_at
FROM refunds WHERE account_id = $1 AND order_id = $2 ORDER BY created_at, id
"""


async def refund_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    entries = []
    for row in await connection.fetch(LIST_REFUNDS_OF_ORDER, scope.account_id, order_id):
        amount, id_ = f"{format_money(row['amount_minor'], row['currency'])} {row['currency']}", row["id"]
        again = f", attempt {row['attempt']}" if row["attempt"] > 1 else ""
        text = f"{amount} by {row['method']} requested ({row['purpose']}{again}): {row['reason']}"
        actor = row["requested_by"]
        entries.append(TimelineEntry(at=row["created_at"], kind="refund", text=text, actor=actor, subject_id=id_))
        if row["settled_at"] is not None:
            details = ", ".join(filter(None, (row["reference"], row["message"])))
            text = f"{amount} {row['state']}{f' ({details})' if details else ''}"
            entries.append(TimelineEntry(at=row["settled_at"], kind="refund", text=text, subject_id=id_))
        elif row["state"] == "approval":
            text = f"{amount} waits for the approval of a second person (`tonne refund approve {id_}`, or `decline`)"
            entries.append(
                TimelineEntry(at=row["created_at"], kind="refund", text=text, subject_id=id_, is_planned=True)
            )
        elif row["next_attempt_at"] is not None:
            text, at = f"{amount} is sent or looked up", row["next_attempt_at"]
            entries.append(TimelineEntry(at=at, kind="refund", text=text, subject_id=id_, is_planned=True))
    return entries


LIST_DISPUTES_OF_ORDER = """
SELECT id, reference, amount_minor, currency, reason, state, evidence_due, opened_at, closed_at
FROM disputes
WHERE account_id = $1 AND (
    order_id = $2
    OR order_id IS NULL AND charge_id IN (
        SELECT paid.charge_id FROM charge_orders paid WHERE paid.account_id = $1 AND paid.order_id = $2))
ORDER BY opened_at, id
"""


async def dispute_timeline(connection: Connection, scope: Scope, order_id: str) -> list[TimelineEntry]:
    entries = []
    for row in await connection.fetch(LIST_DISPUTES_OF_ORDER, scope.account_id, order_id):
        amount, id_ = f"{format_money(row['amount_minor'], row['currency'])} {row['currency']}", row["id"]
        text = f"the payer disputes {amount}: {row['reason']} ({row['reference']})"
        entries.append(TimelineEntry(at=row["opened_at"], kind="dispute", text=text, subject_id=id_))
        if row["closed_at"] is not None:
            text, at = f"dispute over {amount} {row['state']}", row["closed_at"]
            entries.append(TimelineEntry(at=at, kind="dispute", text=text, subject_id=id_))
        elif row["evidence_due"] is not None:
            text, at = "evidence is due at the gateway", row["evidence_due"]
            entries.append(TimelineEntry(at=at, kind="dispute", text=text, subject_id=id_, is_planned=True))
    return entries
