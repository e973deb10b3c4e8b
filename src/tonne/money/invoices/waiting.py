"""The queues of invoices and bank transfers, and what `tonne doctor` warns of."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from tonne.money.invoices.documents.held_back import held_back_by
from tonne.platform.db.queues import Topic, WaitingCheck, queue_of
from tonne.platform.settings.currency_limits import limit_minor
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import DECIMALS, TaxTreatment
from tonne.platform.values.einvoice import EInvoiceFormat
from tonne.platform.values.language import LANGUAGES
from tonne.selling.accounts.tax.tax_profile import TaxProfile


def _missing_settings(settings: Settings, _: datetime) -> Sequence[object]:
    needed = ("seller_address", "seller_email", "bank_account_holder", "bank_iban")
    return ([f"TONNE_{name.upper()}" for name in needed if not getattr(settings, name)],)


def _held_back_by(settings: Settings, _: datetime) -> Sequence[object]:
    """What is missing for orders of each tax treatment, language and electronic invoice, as JSON."""
    missing = {
        f"{treatment} {language} {wanted or ''}": held_back_by(
            treatment, TaxProfile(einvoice=wanted), settings, language
        ).settings
        for treatment in TaxTreatment
        for language in LANGUAGES
        for wanted in (None, *EInvoiceFormat)
    }
    return (json.dumps(missing),)


def _since_deadline(settings: Settings, now: datetime) -> Sequence[object]:
    """After these days an unpaid invoice would be cancelled, if its orders were not fulfilled."""
    return now, settings.invoice_cancel_days


def _refund_minimums(settings: Settings, now: datetime) -> Sequence[object]:
    """Smaller returns to one account wait for others."""
    minimums = {currency: limit_minor(settings.bank_refund_minimum, currency) for currency in DECIMALS}
    return now, json.dumps(minimums)


QUEUES = (
    # Open invoices have a date for their reminder or cancellation: only those that are due wait for a worker.
    queue_of("invoices", "invoices WHERE next_attempt_at <= now() ORDER BY next_attempt_at", since="next_attempt_at"),
    # Those that are held back are due again a minute later.
    queue_of("documents", "due_documents WHERE next_attempt_at <= now() ORDER BY next_attempt_at", since="paid_at"),
    # Many at the end of a month: an alert of its own says when they take too long.
    queue_of("document_files", "unrendered_documents ORDER BY next_attempt_at", due=None),
    # For the operator: money that no invoice expects.
    queue_of(
        "bank_transfers",
        "bank_transfers WHERE state IN ('unmatched', 'overpaid', 'to_return')",
        since="imported_at",
        due=None,
    ),
)

WAITING = (
    WaitingCheck(
        "live invoices name the seller and the bank account",
        "Customers pay by invoice, but invoices lack these settings: they cannot be paid, or are not valid.",
        "Set them, restart Tonne, and mail open invoices again with `tonne invoice resend`.",
        """
        SELECT format('%s is not set', missing.name) AS "where"
        FROM unnest($1::text[]) WITH ORDINALITY AS missing (name, position)
        WHERE EXISTS (SELECT FROM invoices WHERE invoices.mode = 'live')
        ORDER BY missing.position
        """,
        _missing_settings,
        topic=Topic.INVOICES,
    ),
    WaitingCheck(
        "live invoices are not held back by missing settings",
        "Live orders wait for their invoices, because invoices would lack these settings.",
        "Set the TONNE_ variables named below and restart Tonne: the worker then issues and mails the invoices.",
        """
        SELECT format('order %s of account %s, placed at %s: %s not set', orders.id, orders.account_id,
                      to_char(orders.created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'), missing.names)
               AS "where"
        FROM orders
        LEFT JOIN tax_profiles profile ON profile.organisation_id = orders.organisation_id
        CROSS JOIN LATERAL (
            SELECT string_agg(name, ', ') AS names
            FROM jsonb_array_elements_text($1::jsonb -> concat_ws(' ', orders.tax_treatment, orders.language,
                                                                      coalesce(profile.einvoice, ''))) AS name
            -- The organisation may have a note of its own.
            WHERE name NOT LIKE 'TONNE_TAX_NOTE_%' OR profile.legal_note IS NULL
               OR profile.treatment <> orders.tax_treatment
        ) AS missing
        WHERE orders.mode = 'live' AND orders.status = 'placed' AND orders.payment_method = 'invoice'
          AND orders.next_attempt_at IS NOT NULL AND orders.total_cost_minor > 0
          AND missing.names IS NOT NULL
          AND NOT EXISTS (SELECT FROM invoice_orders billed
                          WHERE billed.account_id = orders.account_id AND billed.order_id = orders.id)
          AND NOT EXISTS (SELECT FROM unbilled_orders unbilled
                          WHERE unbilled.account_id = orders.account_id AND unbilled.order_id = orders.id)
        ORDER BY orders.created_at, orders.id
        """,
        _held_back_by,
        topic=Topic.INVOICES,
    ),
    WaitingCheck(
        "live invoices are not held back by the address of the buyer",
        "Live orders wait for their invoices, because an invoice with tax states the full address of the buyer, and an "
        "electronic invoice more.",
        "Ask the customer to enter it on the page Tax, or set it with `tonne org tax`: the worker then "
        "issues and mails the invoices.",
        """
        SELECT waiting."where"
        FROM (SELECT created_at AS since, format('order %s of organisation %s, placed on %s', id, organisation_id,
                     to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')) AS "where"
              FROM orders WHERE mode = 'live' AND status = 'placed' AND hold_reason = 'buyer_details_missing'
              UNION ALL
              SELECT min(unbilled.joins_at), format('organisation %s: %s orders of %s are to be billed together',
                     grouped.organisation_id, grouped.order_count, grouped.currency)
              FROM billing_groups grouped JOIN unbilled_orders unbilled ON unbilled.group_id = grouped.id
              WHERE grouped.mode = 'live' AND grouped.hold_reason = 'buyer_details_missing'
              GROUP BY grouped.id) AS waiting
        WHERE waiting.since < $1::timestamptz
        ORDER BY waiting.since
        """,
        topic=Topic.INVOICES,
    ),
    WaitingCheck(
        "live invoices are not held back by VAT ids or exchange rates",
        "Live orders wait for their invoices: the VAT id of the buyer is not proven to be valid, or the rate for the "
        "tax of an invoice in a foreign currency is missing.",
        "`tonne order show` says what is missing. Record a check with `tonne tax vat-check record`, or import rates "
        "with `tonne rates import-ecb`.",
        """
        SELECT waiting."where"
        FROM (SELECT created_at AS since, format('%s: order %s of organisation %s, placed on %s', hold_reason, id,
                     organisation_id, to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')) AS "where"
              FROM orders WHERE mode = 'live' AND status = 'placed'
                AND hold_reason IN ('vat_check_missing', 'exchange_rate_missing')
              UNION ALL
              SELECT min(unbilled.joins_at), format('%s: organisation %s, %s orders of %s are to be billed together',
                     grouped.hold_reason, grouped.organisation_id, grouped.order_count, grouped.currency)
              FROM billing_groups grouped JOIN unbilled_orders unbilled ON unbilled.group_id = grouped.id
              WHERE grouped.mode = 'live' AND grouped.hold_reason IN ('vat_check_missing', 'exchange_rate_missing')
              GROUP BY grouped.id) AS waiting
        -- The register is asked within a minute.
        WHERE waiting.since < $1::timestamptz - interval '15 minutes'
        ORDER BY waiting.since
        """,
        topic=Topic.INVOICES,
        patience=timedelta(minutes=15),
    ),
    WaitingCheck(
        "live card payments have their document within an hour",
        "A card has paid, and the invoice is not issued: the address of the buyer or settings about the seller are "
        "missing, or no worker is running. The tax of the payment is not booked before.",
        "Ask the customer to enter the address on the page Tax, or set it with `tonne org tax`; set what "
        "the checks of the seller's settings name; check that `tonne worker` is running.",
        """
        SELECT format('order %s of organisation %s, paid at %s: %s', due.order_id, due.organisation_id,
                      to_char(due.paid_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"'),
                      coalesce(replace(due.held_by, '_', ' '), 'not issued yet')) AS "where"
        FROM due_documents due
        WHERE due.mode = 'live' AND due.paid_at < $1::timestamptz - interval '1 hour'
        ORDER BY due.paid_at, due.order_id
        """,
        topic=Topic.INVOICES,
    ),
    WaitingCheck(
        "live consolidated invoices are issued within an hour",
        "Orders should have been billed together: settings about the seller or the address of the buyer are missing, "
        "or no worker is running.",
        "Set TONNE_SELLER_NAME, TONNE_SELLER_ADDRESS, TONNE_SELLER_TAX_ID and TONNE_BANK_IBAN, and check that `tonne "
        "worker` is running and what it logs.",
        """
        SELECT waiting."where"
        FROM (SELECT min(unbilled.joins_at) AS since,
                     format('organisation %s: %s orders of %s wait, the oldest since %s', grouped.organisation_id,
                            grouped.order_count, grouped.currency,
                            to_char(min(unbilled.joins_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD')) AS "where"
              FROM billing_groups grouped JOIN unbilled_orders unbilled ON unbilled.group_id = grouped.id
              WHERE grouped.mode = 'live'
              GROUP BY grouped.id
              HAVING date_trunc('month', min(unbilled.joins_at) AT TIME ZONE 'UTC') + interval '1 month 2 hours'
                     < $1::timestamptz AT TIME ZONE 'UTC'
              UNION ALL
              SELECT joins_at, format('order %s of account %s has not joined its collection', order_id, account_id)
              FROM unbilled_orders WHERE group_id IS NULL AND joins_at < $1::timestamptz - interval '1 hour') AS waiting
        ORDER BY waiting.since
        """,
        topic=Topic.INVOICES,
    ),
    WaitingCheck(
        "electronic invoices were accepted",
        "Electronic invoices were refused, or nobody has recorded within three days what became of them.",
        "Ask the network or the receiver, then record it with `tonne einvoice delivered` or `tonne einvoice refused`.",
        """
        SELECT format('%s to %s, %s since %s%s', number, receiver,
                      CASE state WHEN 'refused' THEN 'refused' ELSE 'without an answer' END,
                      to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'), coalesce(': ' || reason, '')) AS "where"
        FROM einvoice_deliveries
        WHERE state = 'refused' OR state <> 'accepted' AND created_at < $1::timestamptz - interval '3 days'
        ORDER BY created_at, number
        """,
        topic=Topic.INVOICES,
    ),
    WaitingCheck(
        "live orders are within the credit limits of their accounts",
        "Accounts whose orders are fulfilled before payment have reached their limit: further orders wait for payment.",
        "Ask for payment of the open invoices, see `tonne invoice ageing`, or raise the limit with `tonne account "
        "update --credit-limit`.",
        """
        SELECT format('account %s of organisation %s: %s orders wait since %s, the limit is %s',
                      accounts.id, accounts.organisation_id, count(*),
                      to_char(min(orders.created_at) AT TIME ZONE 'UTC', 'YYYY-MM-DD'),
                      money_text(accounts.credit_limit_minor, accounts.currency)) AS "where"
        FROM accounts JOIN orders ON orders.account_id = accounts.id
        WHERE accounts.mode = 'live' AND accounts.fulfil = 'on_order' AND orders.status = 'placed'
          AND orders.hold_reason = 'credit_limit_reached' AND orders.created_at < $1::timestamptz
        GROUP BY accounts.organisation_id, accounts.id
        ORDER BY min(orders.created_at)
        """,
        topic=Topic.ORDERS,
    ),
    WaitingCheck(
        "live invoices of fulfilled orders are paid before others would be cancelled",
        "Orders were fulfilled on credit, and their invoice is not paid: it is not cancelled, and nobody is reminded "
        "again. Or small orders were fulfilled first, and the card was declined for the last time.",
        "Ask the customer for payment; `tonne invoice ageing` lists what is open. If it is not expected any more, run "
        "`tonne invoice write-off`.",
        """
        SELECT format('invoice %s of organisation %s: %s, due on %s', invoices.reference,
                      invoices.organisation_id,
                      money_text(invoices.total_minor - invoices.credited_minor, invoices.currency),
                      invoices.due_on) AS "where"
        FROM invoices
        WHERE invoices.mode = 'live' AND invoices.status = 'open'
          AND invoices.written_off_at IS NULL
          AND CASE WHEN invoices.billing = 'collected' THEN invoices.payment_method = 'invoice'
                   ELSE invoices.due_on < ($1::timestamptz AT TIME ZONE 'UTC')::date - $2::integer END
          AND EXISTS (SELECT FROM invoice_orders billed
                      JOIN orders ON orders.account_id = billed.account_id AND orders.id = billed.order_id
                      WHERE billed.invoice_id = invoices.id AND orders.payment_state = 'unpaid'
                        AND orders.status IN ('paid', 'retiring', 'complete'))
        ORDER BY invoices.due_on, invoices.number
        """,
        _since_deadline,
        topic=Topic.INVOICES,
    ),
    WaitingCheck(
        "write-offs are approved within three days",
        "An invoice is to be written off, and the amount needs the approval of a second person.",
        "Another person than the one who requested it approves it in the browser: `tonne invoice approve-write-off` "
        "prints the link. `tonne invoice reinstate` withdraws it.",
        """
        SELECT format('invoice %s of organisation %s: %s, requested by %s', invoices.reference,
                      invoices.organisation_id, money_text(written.amount_minor, invoices.currency),
                      written.requested_by) AS "where"
        FROM write_offs written JOIN invoices ON invoices.id = written.invoice_id
        WHERE written.state = 'approval' AND written.requested_at < $1::timestamptz - interval '3 days'
        ORDER BY written.requested_at
        """,
        topic=Topic.INVOICES,
        patience=timedelta(days=3),
    ),
    WaitingCheck(
        "live invoices are mailed within an hour",
        "An invoice was issued but not mailed: its organisation has no admin, or no worker is running.",
        "Add an admin with `tonne org add-admin`. The worker then mails the invoice.",
        """
        SELECT format('invoice %s of organisation %s, issued on %s', reference, organisation_id, issued_on) AS "where"
        FROM invoices WHERE mode = 'live' AND status = 'open' AND mailed_at IS NULL AND written_off_at IS NULL
          AND created_at < $1::timestamptz - interval '1 hour'
          AND NOT EXISTS (SELECT FROM charge_invoices document
                          JOIN charges ON charges.account_id = document.account_id AND charges.id = document.charge_id
                          WHERE document.invoice_id = invoices.id AND charges.status = 'pending')
        ORDER BY created_at
        """,
        topic=Topic.INVOICES,
    ),
    WaitingCheck(
        "the files of documents are stored within a day",
        "Invoices or credit notes have a number but no file: they cannot be rendered or signed. They are not mailed.",
        "Check that `tonne worker` runs, and its log for `document_not_rendered`. The usual cause is the signing key.",
        """
        SELECT format('document %s, issued at %s', document_id, to_char(created_at AT TIME ZONE 'UTC', 'YYYY-MM-DD'))
               AS "where"
        FROM unrendered_documents WHERE created_at < $1::timestamptz - interval '1 day' ORDER BY created_at
        """,
        topic=Topic.INVOICES,
    ),
    WaitingCheck(
        "organisations with open live invoices have an admin",
        "Nobody gets the invoices and reminders, so they wait, and so do their deadlines.",
        "Add an admin with `tonne org add-admin`. The worker then mails what waits.",
        """
        SELECT format('organisation %s: %s open, the oldest is %s', invoices.organisation_id, count(*),
                      min(invoices.reference)) AS "where"
        FROM invoices WHERE invoices.mode = 'live' AND invoices.status = 'open'
          AND invoices.created_at < $1::timestamptz
          AND NOT EXISTS (SELECT FROM organisation_admins admin
                          WHERE admin.organisation_id = invoices.organisation_id)
        GROUP BY invoices.organisation_id ORDER BY min(invoices.created_at)
        """,
        topic=Topic.INVOICES,
    ),
    WaitingCheck(
        "partly paid invoices are paid in full within a week",
        "A customer transferred less than the total, and the rest did not arrive.",
        "Ask the customer for the rest, or accept it with `tonne invoice settle`.",
        """
        SELECT format('invoice %s: %s of %s received, last at %s', invoices.reference,
                      money_text(received.minor, invoices.currency),
                      money_text(invoices.total_minor - invoices.credited_minor, invoices.currency),
                      to_char(received.last_at AT TIME ZONE 'UTC', 'YYYY-MM-DD')) AS "where"
        FROM invoices
        CROSS JOIN LATERAL (SELECT sum(each.amount_minor) AS minor, max(each.created_at) AS last_at
                            FROM transfer_assignments each WHERE each.invoice_id = invoices.id) AS received
        WHERE invoices.mode = 'live' AND invoices.status = 'open' AND invoices.written_off_at IS NULL
          AND received.minor > 0 AND received.last_at < $1::timestamptz - interval '7 days'
        ORDER BY received.last_at
        """,
        topic=Topic.INVOICES,
    ),
    WaitingCheck(
        "unmatched live bank transfers are resolved within three days",
        "Money arrived that no open invoice expects: the reference is unknown, the invoice is paid or cancelled, or "
        "the amount is too high.",
        "If it pays an invoice, run `tonne transfer assign`; otherwise `tonne transfer return`. `tonne transfer list` "
        "shows all.",
        """
        SELECT format('transfer %s of %s: %s from %s, %s', transfer.id, transfer.booked_on,
                      money_text(transfer.amount_minor, transfer.currency), left(transfer.payer, 50),
                      transfer.state) AS "where"
        FROM bank_transfers transfer
        WHERE transfer.state IN ('unmatched', 'overpaid') AND transfer.mode = 'live'
          AND transfer.imported_at < $1::timestamptz - interval '3 days'
        ORDER BY transfer.imported_at, transfer.id
        """,
        topic=Topic.BANK,
        patience=timedelta(days=3),
    ),
    WaitingCheck(
        "live bank refunds are made within three days",
        "Money waits to go back to the payer: it was not approved, not exported, or not seen in a statement since.",
        "Run `tonne transfer returns`. `tonne transfer approve` prints the link to approve one. Then run "
        "`tonne transfer export-returns`, and import the next statement, or confirm with `tonne transfer returned`.",
        """
        SELECT format('return %s of transfer %s: %s to %s, %s', sent.id, sent.transfer_id,
                      money_text(sent.amount_minor, sent.currency), left(sent.to_name, 50), sent.status) AS "where"
        FROM (SELECT *, sum(each.amount_minor) OVER (PARTITION BY each.to_iban, each.currency, each.status) AS together
              FROM (SELECT returns.*, transfer.currency, transfer.mode
                    FROM transfer_returns returns JOIN bank_transfers transfer ON transfer.id = returns.transfer_id
                    WHERE returns.status IN ('planned', 'exported') AND transfer.mode = 'live') each) sent
        WHERE sent.created_at < $1::timestamptz - interval '3 days'
          AND NOT (sent.status = 'planned' AND sent.created_at > $1::timestamptz - interval '33 days'
                   AND sent.together < coalesce(($2::jsonb ->> sent.currency::text)::bigint, 0))
        ORDER BY sent.created_at, sent.id
        """,
        _refund_minimums,
        topic=Topic.REFUNDS,
        patience=timedelta(days=3),
    ),
    WaitingCheck(
        "live orders that a card pays reach the minimum charge within two months",
        "Orders wait for a consolidated invoice, because together they are below what a card can be charged.",
        "Nothing is needed if the account orders more. Otherwise cancel them with `tonne order cancel`.",
        """
        SELECT format('account %s: %s orders of %s, the oldest of %s', grouped.account_id, grouped.order_count,
                      money_text(grouped.total_minor, grouped.currency),
                      to_char(waiting.since AT TIME ZONE 'UTC', 'YYYY-MM-DD')) AS "where"
        FROM billing_groups grouped
        CROSS JOIN LATERAL (SELECT min(joins_at) AS since FROM unbilled_orders unbilled
                            WHERE unbilled.group_id = grouped.id) AS waiting
        WHERE grouped.mode = 'live' AND grouped.account_id <> ''
          AND waiting.since < $1::timestamptz - interval '2 months'
        ORDER BY waiting.since
        """,
        topic=Topic.ORDERS,
    ),
    WaitingCheck(
        "doubtful lines of bank statements are decided within three days",
        "A line may be one that was imported before in another format. It is not counted until you decide.",
        "Compare the two with `tonne transfer doubtful`, then run `tonne transfer same` or `tonne transfer different`.",
        """
        SELECT format('line %s resembles transfer %s', each.id, each.transfer_id) AS "where"
        FROM doubtful_lines each
        WHERE each.is_same IS NULL AND each.mode = 'live'
          AND each.imported_at < $1::timestamptz - interval '3 days'
        ORDER BY each.imported_at, each.id
        """,
        topic=Topic.BANK,
        patience=timedelta(days=3),
    ),
)
