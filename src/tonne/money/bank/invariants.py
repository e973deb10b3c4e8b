from tonne.money.bank.transfer_store import DONE_WITH_TRANSFER, REST_OF_TRANSFER, STATE_OF_TRANSFER
from tonne.platform.db.invariant import Invariant

INVARIANTS = (
    Invariant(
        "no transfer is spent twice",
        "More of a bank transfer was assigned, returned or resolved than arrived.",
        f"""
        SELECT format('transfer %s of %s %s: %s too much was assigned, returned or resolved', transfer.id,
                      transfer.amount_minor, transfer.currency, -{REST_OF_TRANSFER}) AS "where"
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
