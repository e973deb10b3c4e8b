from tonne.money.bank.transfer_store import DONE_WITH_TRANSFER, REST_OF_TRANSFER, STATE_OF_TRANSFER
from tonne.platform.db.invariant import Invariant

# How many other people must have approved what somebody requested: see selling/users/approvals.py.
_NEEDED = "CASE WHEN starts_with(sent.created_by, 'cli:') THEN 2 ELSE 1 END"
INVARIANTS = (
    Invariant(
        "an exported return that needed other people was approved by them",
        "Money was sent to another account than the payer's, or more than one person may send, without an approval.",
        f"""
        SELECT format('return %s of transfer %s: %s to %s', sent.id, transfer.id,
                      money_text(sent.amount_minor, transfer.currency), sent.to_iban) AS "where"
        FROM transfer_returns sent
        JOIN return_batches batch ON batch.id = sent.batch_id
        JOIN bank_transfers transfer ON transfer.id = sent.transfer_id
        -- The limit, and since when it is known to apply.
        LEFT JOIN guarded_settings above ON above.name = 'return_approval_above'
          AND batch.created_at >= (SELECT max(at) FROM audit_log WHERE subject_id = 'return_approval_above'
                                   AND action IN ('setting.noted', 'setting.changed'))
        WHERE (sent.to_other_account
               OR sent.amount_minor > above.value::numeric * 10::numeric ^ decimals_of(transfer.currency))
          AND NOT EXISTS (SELECT FROM approvals
                          WHERE approvals.kind = 'return' AND approvals.subject_id = sent.id
                          GROUP BY approvals.digest HAVING count(DISTINCT approvals.approved_by) >= {_NEEDED})
        """,  # noqa: S608 - a constant
    ),
    Invariant(
        "no transfer is spent twice",
        "More of a bank transfer was assigned, returned or resolved than arrived.",
        f"""
        SELECT format('transfer %s of %s: %s too much was assigned, returned or resolved', transfer.id,
                      money_text(transfer.amount_minor, transfer.currency),
                      money_text(-{REST_OF_TRANSFER}, transfer.currency)) AS "where"
        FROM bank_transfers transfer {DONE_WITH_TRANSFER}
        WHERE transfer.amount_minor > 0 AND {REST_OF_TRANSFER} < 0
        UNION ALL
        SELECT format('transfer %s: %s assigned to invoice %s, %s refunded', received.transfer_id,
                      money_text(received.minor, of.currency), received.invoice_id,
                      money_text(coalesce(refunded.minor, 0), of.currency))
        FROM (SELECT each.transfer_id, each.invoice_id, sum(each.amount_minor) AS minor
              FROM transfer_assignments each GROUP BY each.transfer_id, each.invoice_id) AS received
        FULL JOIN (SELECT each.transfer_id, each.invoice_id, sum(each.amount_minor) AS minor
                   FROM transfer_returns each
                   WHERE each.invoice_id IS NOT NULL AND each.status IN ('planned', 'exported', 'returned')
                   GROUP BY each.transfer_id, each.invoice_id) AS refunded
          ON refunded.transfer_id = received.transfer_id AND refunded.invoice_id = received.invoice_id
        JOIN bank_transfers of ON of.id = coalesce(received.transfer_id, refunded.transfer_id)
        WHERE coalesce(received.minor, 0) < coalesce(refunded.minor, 0)
        """,  # noqa: S608 - constants
    ),
    Invariant(
        "transfers have the state that follows from what was done with them",
        "`tonne transfer list` shows a transfer in a wrong state, or hides it.",
        f"""
        SELECT format('transfer %s is %s, expected %s', transfer.id, transfer.state, {STATE_OF_TRANSFER}) AS "where"
        FROM bank_transfers transfer {DONE_WITH_TRANSFER}
        WHERE transfer.state <> {STATE_OF_TRANSFER}
        """,  # noqa: S608 - constants
    ),
)
