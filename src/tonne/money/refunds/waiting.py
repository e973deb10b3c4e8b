"""The queues of refunds, and what `tonne doctor` warns of."""

from tonne.money.refunds.disputes.dispute_store import TAX_IS_OPEN
from tonne.platform.db.queues import Topic, WaitingCheck, queue_of

QUEUES = (queue_of("refunds", "refunds WHERE next_attempt_at IS NOT NULL ORDER BY next_attempt_at"),)
WAITING = (
    WaitingCheck(
        "live refunds by card succeed at the first attempt and within a day",
        "The gateway rejected a refund, or does not make it. The worker repeats it, under a new id after a rejection.",
        "Run `tonne refund show` for the gateway's message. You may also refund at the gateway: the worker finds that "
        "and cancels its own attempt. `tonne refund retry` repeats it at once.",
        """
        SELECT format('refund %s of order %s: %s, attempt %s%s', refunds.id, refunds.order_id,
                      money_text(refunds.amount_minor, refunds.currency), refunds.attempt,
                      ': ' || nullif(coalesce(refunds.message, failed.message), '')) AS "where"
        FROM refunds LEFT JOIN refunds failed ON failed.id = refunds.repeats
        WHERE refunds.mode = 'live' AND refunds.method = 'card' AND refunds.state IN ('due', 'pending')
          AND (refunds.attempt > 1
               OR refunds.state = 'due' AND refunds.created_at < $1::timestamptz - interval '1 day'
               OR refunds.created_at < $1::timestamptz - interval '14 days')
        ORDER BY refunds.created_at
        """,
        topic=Topic.REFUNDS,
    ),
    WaitingCheck(
        "no live refund waits for an approval",
        "The amount is above `refund_approval_above`, so a second person must approve it.",
        "Another person than the one who requested it approves it in the browser: `tonne refund approve` prints the "
        "link. Or run `tonne refund decline`.",
        """
        SELECT format('refund %s of order %s: %s, requested by %s', id, order_id,
                      money_text(amount_minor, currency), requested_by) AS "where"
        FROM refunds WHERE mode = 'live' AND state = 'approval' AND $1::timestamptz IS NOT NULL
        ORDER BY created_at
        """,
        topic=Topic.REFUNDS,
    ),
    WaitingCheck(
        "no live refund by bank waits for a person",
        "The invoice was settled by hand, so no transfer is on record that could be returned.",
        "Send the money back, then run `tonne refund settle`.",
        """
        SELECT format('refund %s of order %s: %s', id, order_id, money_text(amount_minor, currency)) AS "where"
        FROM refunds WHERE mode = 'live' AND method = 'bank' AND state = 'due' AND return_ids = '{}'
          AND $1::timestamptz IS NOT NULL
        ORDER BY created_at
        """,
        topic=Topic.REFUNDS,
    ),
    WaitingCheck(
        "no live payment is disputed",
        "A payer disputes a payment at their bank. Without evidence the money is lost. The order is held.",
        "Submit evidence at the gateway before the date; `tonne dispute show` has the gateway's id.",
        """
        SELECT format('dispute %s of %s: %s, %s, evidence due %s', id,
                      coalesce('order ' || order_id, 'charge ' || charge_id), money_text(amount_minor, currency),
                      reason, coalesce(to_char(evidence_due, 'YYYY-MM-DD'), 'unknown')) AS "where"
        FROM disputes WHERE mode = 'live' AND state = 'opened' AND $1::timestamptz IS NOT NULL
        ORDER BY evidence_due NULLS LAST, id
        """,
        topic=Topic.PAYMENTS,
    ),
    WaitingCheck(
        "the tax of every live dispute that was lost is decided",
        "A payment was lost after delivery. Whether its tax is still owed depends on the country: a person decides.",
        "`tonne dispute show` says what was lost. Decide on its page for operators: correct the tax, or keep it.",
        f"""
        SELECT format('dispute %s of %s: %s', id, coalesce('order ' || order_id, 'charge ' || charge_id),
                      money_text(withdrawn_minor, currency)) AS "where"
        FROM disputes WHERE mode = 'live' AND {TAX_IS_OPEN} AND $1::timestamptz IS NOT NULL
        ORDER BY closed_at, id
        """,  # noqa: S608 - a constant
        topic=Topic.PAYMENTS,
    ),
    WaitingCheck(
        "every live payment arrived with the requested amount",
        "A payment arrived with another amount or currency, or so late that another charge for its order was open. "
        "Nothing happens until you decide.",
        "Run `tonne charge refund` to send it back, or `tonne charge accept` to accept it for the order.",
        """
        SELECT format('charge %s of %s: %s were requested, %s arrived, see %s at %s', id,
                      coalesce('order ' || order_id, 'invoice ' || invoice_id),
                      money_text(amount_minor, currency),
                      coalesce(money_text(captured_minor, captured_currency), 'another amount'),
                      reference, gateway) AS "where"
        FROM charges WHERE mode = 'live' AND status = 'mismatched' AND $1::timestamptz IS NOT NULL
        ORDER BY settled_at
        """,
        topic=Topic.PAYMENTS,
    ),
)
