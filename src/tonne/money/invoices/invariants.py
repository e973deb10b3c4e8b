from tonne.platform.db.invariant import Invariant
from tonne.platform.db.schema.partitions import DOCUMENTS, first_kept_day
from tonne.selling.orders.window_store import REDUCED

INVARIANTS = (
    Invariant(
        "the numbers of tax documents are 1 to n without a gap",
        "The number of an invoice or a credit note is missing or was used twice: an auditor will ask for it.",
        """
        SELECT format('%s series %s: %s documents up to number %s, last number %s', series.mode, series.series,
                      count(document.number), coalesce(max(document.number), 0), series.last_number) AS "where"
        FROM document_series series
        LEFT JOIN tax_documents document ON document.mode = series.mode AND document.series = series.series
        GROUP BY series.mode, series.series, series.last_number
        HAVING count(document.number) <> series.last_number
            OR coalesce(max(document.number), 0) <> series.last_number
        """,
    ),
    Invariant(
        "the state of a tax document agrees with its record",
        "An invoice or a credit note has another number, amount or date than the document that was issued.",
        """
        SELECT format('%s %s', document.kind, document.reference) AS "where"
        FROM tax_documents document
        LEFT JOIN invoices ON invoices.id = document.id
        LEFT JOIN credit_notes note ON note.id = document.id
        WHERE (document.kind, document.mode, document.organisation_id, document.number, document.reference,
               document.currency, document.total_minor, document.issued_on)
              IS DISTINCT FROM
              (CASE WHEN note.id IS NOT NULL THEN 'credit_note'
                    WHEN document.kind <> 'credit_note' THEN document.kind END,
               coalesce(invoices.mode, note.mode), coalesce(invoices.organisation_id, note.organisation_id),
               coalesce(invoices.number, note.number), coalesce(invoices.reference, note.reference),
               coalesce(invoices.currency, note.currency), coalesce(invoices.total_minor, note.total_minor),
               coalesce(invoices.issued_on, note.issued_on))
          -- One that takes back a credit note has no state.
          AND (document.kind = 'credit_note' OR document.corrects IS NULL)
        """,
    ),
    Invariant(
        "an invoice's status matches its orders'",
        "An invoice is open, paid or cancelled although one of its orders is not.",
        """
        SELECT format('invoice %s is %s, order %s of account %s is %s', invoices.reference, invoices.status, orders.id,
                      orders.account_id, orders.status) AS "where"
        FROM invoices JOIN invoice_orders billed ON billed.invoice_id = invoices.id
        JOIN orders ON orders.account_id = billed.account_id AND orders.id = billed.order_id
        WHERE (invoices.status, orders.status) NOT IN (VALUES
            ('open', 'placed'), ('cancelled', 'cancelled'), ('cancelled', 'failed'),
            ('paid', 'paid'), ('paid', 'retiring'), ('paid', 'complete'))
          AND NOT (billed.cancelled AND orders.status IN ('cancelled', 'failed'))
          AND NOT (invoices.status = 'open' AND orders.payment_state = 'unpaid'
                   AND orders.status IN ('paid', 'retiring', 'complete'))
        """,
    ),
    Invariant(
        "the orders of an invoice match it",
        "An order was billed with another amount, currency or mode than it has, and had before it was reduced.",
        f"""
        SELECT format('invoice %s: %s, order %s of account %s: %s', invoices.reference,
                      money_text(billed.offset_minor + billed.fee_minor, invoices.currency), orders.id,
                      orders.account_id,
                      money_text(orders.total_cost_minor + orders.billing_adjustment_minor, orders.currency)) AS "where"
        FROM invoices JOIN invoice_orders billed ON billed.invoice_id = invoices.id
        JOIN orders ON orders.account_id = billed.account_id AND orders.id = billed.order_id
        LEFT JOIN {REDUCED} reduced ON reduced.account_id = orders.account_id AND reduced.order_id = orders.id
        WHERE (billed.offset_minor + billed.fee_minor, coalesce(billed.tax_minor, 0), invoices.currency, invoices.mode,
               invoices.organisation_id,
               -- What a card did not pay in the end, a transfer may.
               CASE WHEN invoices.billing = 'collected' THEN 'card' ELSE invoices.payment_method END)
              IS DISTINCT FROM (orders.total_cost_minor + orders.billing_adjustment_minor
                                    + coalesce(reduced.billed_net_minor, 0),
                                coalesce(orders.tax_minor, 0) + coalesce(reduced.billed_tax_minor, 0), orders.currency,
                                orders.mode, orders.organisation_id, orders.payment_method)
        """,  # noqa: S608 - a constant
    ),
    Invariant(
        "an invoice's total is the sum of its orders",
        "An invoice asks for more or less than its orders cost, or its credit notes do not fit its orders.",
        """
        SELECT format('invoice %s: %s in total, %s of %s orders billed', invoices.reference,
                      money_text(invoices.total_minor, invoices.currency),
                      money_text(coalesce(sum(billed.total_minor), 0), invoices.currency), count(billed.order_id))
               AS "where"
        FROM invoices JOIN tax_documents document ON document.id = invoices.id
        LEFT JOIN invoice_orders billed ON billed.invoice_id = invoices.id
        GROUP BY invoices.id, document.tax_minor
        HAVING (invoices.total_minor, document.tax_minor, invoices.order_count::bigint)
               IS DISTINCT FROM (sum(billed.total_minor)::bigint, sum(billed.tax_minor)::bigint, count(billed.order_id))
            OR invoices.credited_minor < coalesce(sum(billed.total_minor) FILTER (WHERE billed.cancelled), 0)
        """,
    ),
    Invariant(
        "the credit notes of an invoice add up",
        "A cancelled invoice has no credit note, or an invoice was reduced by another amount than its credit notes.",
        """
        SELECT format('invoice %s is %s: %s credited, %s in %s credit notes', invoices.reference, invoices.status,
                      money_text(invoices.credited_minor, invoices.currency),
                      money_text(coalesce(sum(note.total_minor), 0), invoices.currency), count(note.id)) AS "where"
        FROM invoices
        LEFT JOIN credit_notes note ON note.invoice_id = invoices.id AND note.taken_back_by IS NULL
        GROUP BY invoices.id
        HAVING invoices.credited_minor <> coalesce(sum(note.total_minor), 0)
            OR bool_or((note.mode, note.currency, note.organisation_id)
                       <> (invoices.mode, invoices.currency, invoices.organisation_id))
        """,
    ),
    Invariant(
        "no order is credited with more than it was billed",
        "Credit notes took more off an order than its invoice had, or the orders of a credit note do not sum to it.",
        """
        SELECT format('order %s of account %s: %s of %s credited', credited.order_id, credited.account_id,
                      money_text(sum(credited.total_minor), note.currency),
                      money_text(coalesce(billed.total_minor, 0), note.currency)) AS "where"
        FROM credit_note_orders credited JOIN credit_notes note ON note.id = credited.credit_note_id
        LEFT JOIN invoice_orders billed ON billed.invoice_id = note.invoice_id
          AND billed.account_id = credited.account_id AND billed.order_id = credited.order_id
        WHERE note.taken_back_by IS NULL
        GROUP BY note.invoice_id, note.currency, credited.account_id, credited.order_id, billed.total_minor,
                 billed.cancelled
        HAVING sum(credited.total_minor) > coalesce(billed.total_minor, 0)
            OR (billed.cancelled AND sum(credited.total_minor) <> billed.total_minor)
        UNION ALL
        SELECT format('credit note %s: %s in total, %s of %s orders', note.reference,
                      money_text(note.total_minor, note.currency),
                      money_text(coalesce(sum(credited.total_minor), 0), note.currency), count(credited.order_id))
        FROM credit_notes note JOIN tax_documents document ON document.id = note.id
        LEFT JOIN credit_note_orders credited ON credited.credit_note_id = note.id
        GROUP BY note.id, document.tax_minor
        HAVING (note.total_minor, document.tax_minor)
               IS DISTINCT FROM (sum(credited.total_minor)::bigint, sum(credited.tax_minor)::bigint)
        """,
    ),
    Invariant(
        "every live document has its file",
        "The bytes of an invoice or a credit note are not stored, and no worker will render them.",
        f"""
        SELECT format('document %s (%s)', issued.reference, issued.id) AS "where"
        FROM tax_documents issued
        WHERE issued.mode = 'live' AND issued.issued_on >= coalesce({first_kept_day(DOCUMENTS)}, '-infinity')
          AND NOT EXISTS (SELECT FROM tax_document_files file WHERE file.document_id = issued.id
                          AND file.issued_on = issued.issued_on AND file.format = 'pdf')
          AND NOT EXISTS (SELECT FROM unrendered_documents waiting WHERE waiting.document_id = issued.id)
        """,  # noqa: S608 - our own words
    ),
    Invariant(
        "orders that wait for an invoice are counted in their group",
        "A group of orders would be billed at the wrong time, or an order is billed and still waits.",
        """
        -- An exact cost has six more decimals than money.
        SELECT format('group %s: %s orders for %s %s, but counted %s for %s', grouped.id, count(unbilled.order_id),
                      trim_scale(coalesce(sum(unbilled.exact_cost), 0) / 10::numeric ^ (6 + decimals_of(currency))),
                      currency, grouped.order_count,
                      trim_scale(grouped.exact_cost / 10::numeric ^ (6 + decimals_of(currency)))) AS "where"
        FROM billing_groups grouped LEFT JOIN unbilled_orders unbilled ON unbilled.group_id = grouped.id
        GROUP BY grouped.id
        HAVING (count(unbilled.order_id), coalesce(sum(unbilled.exact_cost), 0))
               IS DISTINCT FROM (grouped.order_count, grouped.exact_cost)
            OR (grouped.order_count > 0) <> (grouped.next_attempt_at IS NOT NULL)
        UNION ALL
        SELECT format('order %s of account %s is %s and waits for an invoice', orders.id, orders.account_id,
                      orders.status)
        FROM unbilled_orders unbilled
        JOIN orders ON orders.account_id = unbilled.account_id AND orders.id = unbilled.order_id
        WHERE orders.status NOT IN ('placed', 'paid', 'retiring', 'complete') OR orders.payment_state <> 'unpaid'
           OR EXISTS (SELECT FROM invoice_orders billed WHERE NOT billed.cancelled
                      AND billed.account_id = orders.account_id AND billed.order_id = orders.id)
        """,
    ),
    Invariant(
        "every captured payment has a document",
        "A card has paid an order, and no worker will issue its invoice: the tax of the payment is not booked.",
        """
        SELECT format('charge %s of order %s', charges.id, charges.order_id) AS "where"
        FROM charges JOIN orders ON orders.account_id = charges.account_id AND orders.id = charges.order_id
        WHERE charges.status IN ('captured', 'refunded') AND NOT charges.is_surplus
          AND orders.status NOT IN ('cancelled', 'failed')
          AND NOT EXISTS (SELECT FROM invoice_orders billed
                          WHERE billed.account_id = orders.account_id AND billed.order_id = orders.id)
          AND NOT EXISTS (SELECT FROM due_documents due
                          WHERE due.account_id = orders.account_id AND due.order_id = orders.id)
        """,
    ),
    Invariant(
        "an order paid by card has one captured charge of its total",
        "An order was marked as paid without a captured charge, or with another amount.",
        f"""
        SELECT format('order %s of account %s is %s and costs %s, captured: %s', orders.id, orders.account_id,
                      orders.status,
                      money_text(orders.total_cost_minor + coalesce(orders.tax_minor, 0), orders.currency),
                      coalesce(money_text(captured.amount_minor, captured.currency), 'nothing')) AS "where"
        FROM orders
        LEFT JOIN charges captured ON captured.account_id = orders.account_id AND captured.order_id = orders.id
                                  AND captured.status IN ('captured', 'refunded') AND NOT captured.is_surplus
        LEFT JOIN {REDUCED} reduced ON reduced.account_id = orders.account_id AND reduced.order_id = orders.id
        WHERE orders.payment_method = 'card' AND orders.status IN ('paid', 'retiring', 'complete')
          AND orders.payment_state <> 'unpaid' AND orders.total_cost_minor + orders.billing_adjustment_minor > 0
          AND NOT EXISTS (SELECT FROM invoice_orders billed JOIN invoices ON invoices.id = billed.invoice_id
                          WHERE billed.account_id = orders.account_id AND billed.order_id = orders.id
                            AND NOT invoices.is_prepaid)
          AND (captured.amount_minor, captured.currency)
              IS DISTINCT FROM (orders.total_cost_minor + coalesce(orders.tax_minor, 0)
                                    + coalesce(reduced.paid_minor, 0), orders.currency)
        """,  # noqa: S608 - a constant
    ),
)
