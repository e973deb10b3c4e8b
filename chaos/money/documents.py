"""Every cent that a card has paid is on a document: SQL of its own, which shares nothing with `tonne doctor`.

It reads what the gateway took and gave back, the documents as they were issued, and what is booked, and no column in
which the service keeps a result, such as what an invoice was credited.
"""

import hashlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import zstandard

Fetch = Callable[..., Awaitable[Sequence[Any]]]

# By the first document of each chain of corrections: what all of them state together.
_STATED = """
chain AS (
    SELECT id, id AS first_id FROM tax_documents WHERE corrects IS NULL
    UNION ALL
    SELECT later.id, chain.first_id FROM tax_documents later JOIN chain ON later.corrects = chain.id
), stated AS (
    SELECT chain.first_id, sum(CASE kind WHEN 'credit_note' THEN -total_minor ELSE total_minor END) AS minor
    FROM chain JOIN tax_documents USING (id) GROUP BY chain.first_id
)"""
# What the gateway took of each charge, gave back, and had to leave to a payer who disputed it.
_TAKEN = """
taken AS (
    SELECT charges.account_id, charges.order_id, simulated.amount_minor
               - coalesce((SELECT sum(amount_minor) FROM simulated_refunds back
                           WHERE back.reference = simulated.reference AND back.status = 'refunded'), 0)
               - coalesce(disputed.minor, 0) AS kept_minor,
           coalesce(disputed.minor, 0) AS lost_minor
    FROM simulated_charges simulated JOIN charges ON charges.id = simulated.id
    LEFT JOIN (SELECT reference, sum(amount_minor) AS minor FROM simulated_disputes WHERE status = 'lost'
               GROUP BY reference) disputed ON disputed.reference = simulated.reference
    WHERE simulated.status = 'captured'
)"""
CHECKS = {
    # The tax of a dispute that was lost after delivery is decided by a person: until then its document stays.
    "what a card paid for an order is on its documents": f"""
        WITH RECURSIVE {_STATED}, {_TAKEN}, paid AS (
            SELECT account_id, order_id, sum(kept_minor) AS kept_minor, sum(lost_minor) AS lost_minor FROM taken
            WHERE order_id IS NOT NULL GROUP BY account_id, order_id
        ), documented AS (
            SELECT billed.account_id, billed.order_id, sum(stated.minor) AS minor
            FROM (SELECT DISTINCT invoice_id, account_id, order_id FROM invoice_orders) billed
            JOIN stated ON stated.first_id = billed.invoice_id GROUP BY billed.account_id, billed.order_id
        )
        SELECT format('order %s, %s: %s kept, %s lost, %s on documents', paid.order_id, orders.status, paid.kept_minor,
                      paid.lost_minor, documented.minor)
        FROM paid JOIN orders ON orders.account_id = paid.account_id AND orders.id = paid.order_id
        LEFT JOIN documented ON documented.account_id = paid.account_id AND documented.order_id = paid.order_id
        WHERE coalesce(documented.minor, 0) <> paid.kept_minor
          AND NOT (paid.lost_minor > 0 AND orders.status = 'complete'
                   AND documented.minor = paid.kept_minor + paid.lost_minor)""",
    "what a card paid for invoices is on them": f"""
        WITH RECURSIVE {_STATED}, {_TAKEN}, paid AS (
            SELECT account_id, sum(kept_minor) AS kept_minor, sum(lost_minor) AS lost_minor FROM taken
            WHERE order_id IS NULL GROUP BY account_id
        ), documented AS (
            SELECT billed.account_id, sum(stated.minor) AS minor
            FROM (SELECT DISTINCT part.invoice_id, part.account_id FROM invoice_orders part
                  JOIN invoices ON invoices.id = part.invoice_id
                  WHERE invoices.payment_method = 'card' AND NOT invoices.is_prepaid AND invoices.status <> 'open'
                 ) billed
            JOIN stated ON stated.first_id = billed.invoice_id GROUP BY billed.account_id
        )
        SELECT format('account %s: %s kept, %s lost, %s on invoices', account_id, kept_minor, lost_minor, minor)
        FROM paid FULL JOIN documented USING (account_id)
        WHERE coalesce(minor, 0) - coalesce(kept_minor, 0) NOT BETWEEN 0 AND coalesce(lost_minor, 0)""",
    "orders were charged or billed, never both": """
        SELECT format('order %s', billed.order_id)
        FROM invoice_orders billed JOIN invoices ON invoices.id = billed.invoice_id AND NOT invoices.is_prepaid
        JOIN charges ON charges.account_id = billed.account_id AND charges.order_id = billed.order_id
        JOIN simulated_charges simulated ON simulated.id = charges.id AND simulated.status = 'captured'
        WHERE NOT billed.cancelled AND simulated.refunded_minor < simulated.amount_minor""",
    "the tax of documents is the tax that is booked": """
        SELECT format('%s %s: %s', mode, currency, sum(minor))
        FROM (SELECT mode, currency::text, CASE kind WHEN 'credit_note' THEN -1 ELSE 1 END * tax_minor AS minor
              FROM tax_documents
              UNION ALL
              SELECT entry.mode, posting.currency::text, posting.amount_minor
              FROM ledger_postings posting JOIN ledger_entries entry ON entry.id = posting.entry_id
              WHERE posting.account::text LIKE 'Liabilities:Tax%') AS each
        GROUP BY mode, currency HAVING sum(minor) <> 0""",
    "the books have what the gateway has": """
        SELECT format('%s booked, %s at the gateway', booked.minor, gateway.minor)
        FROM (SELECT coalesce(sum(posting.amount_minor), 0) AS minor
              FROM ledger_postings posting JOIN ledger_entries entry ON entry.id = posting.entry_id
              WHERE entry.mode = 'test' AND posting.account = 'Assets:Card-Clearing') AS booked
        CROSS JOIN (SELECT coalesce((SELECT sum(amount_minor) FROM simulated_charges WHERE status = 'captured'), 0)
                    - coalesce((SELECT sum(amount_minor) FROM simulated_refunds WHERE status = 'refunded'), 0)
                    - coalesce((SELECT sum(amount_minor) FROM simulated_disputes WHERE status <> 'won'), 0) AS minor
                   ) AS gateway
        WHERE booked.minor <> gateway.minor""",
    "numbers have no gap": """
        SELECT format('%s %s: %s documents up to %s', mode, series, count(*), max(number)) FROM tax_documents
        GROUP BY mode, series HAVING count(*) <> max(number) OR min(number) <> 1""",
    "every document has its file": """
        SELECT document.reference FROM tax_documents document
        WHERE NOT EXISTS (SELECT FROM tax_document_files file
                          WHERE file.document_id = document.id AND file.format = 'pdf')""",
    "nothing waits": """
        SELECT format('document of %s', order_id) FROM due_documents
        UNION ALL SELECT format('file of %s', document_id) FROM unrendered_documents
        UNION ALL SELECT format('entry of %s', source_id) FROM ledger_due""",
}
# Those of test mode are rendered when they are first read; with this, the worker renders them as it does live ones.
RENDER_ALL = """
CREATE FUNCTION queue_rendering() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
    INSERT INTO unrendered_documents VALUES (NEW.id, NEW.mode, now(), now()) ON CONFLICT DO NOTHING;
    RETURN NULL;
END $$;
CREATE TRIGGER documents_are_rendered AFTER INSERT ON tax_documents FOR EACH ROW EXECUTE FUNCTION queue_rendering()
"""
FILES = "SELECT document_id, format, sha256, raw_size, body FROM tax_document_files"
COUNTS = """
SELECT format('%s %ss of %s', count(*), replace(kind, '_', ' '), sum(total_minor)) FROM tax_documents
GROUP BY kind ORDER BY kind
"""


async def find_undocumented(fetch: Fetch) -> list[str]:
    """What each check finds. `fetch` runs a query. Call it when nothing changes any more."""
    found = [f"{name}: {row[0]}" for name, sql in CHECKS.items() for row in await fetch(sql)]
    for row in await fetch(FILES):
        content = zstandard.ZstdDecompressor().decompress(row["body"], max_output_size=row["raw_size"])
        if hashlib.sha256(content).digest() != row["sha256"]:
            found.append(f"a file is not as it was stored: {row['document_id']} {row['format']}")
    return found


async def count_documents(fetch: Fetch) -> str:
    return ", ".join([row[0] for row in await fetch(COUNTS)])
