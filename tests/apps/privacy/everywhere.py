"""All values of all tables as text, to see where a person's data is, and the sums that an erasure must not change."""

import json
import re
from collections import defaultdict
from email import message_from_bytes
from email.policy import SMTP
from typing import Any

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.json_compression import decompress_json

COLUMNS = """
SELECT relation.relname AS "table", attribute.attname AS "column", attribute.atttypid::regtype::text AS "type"
FROM pg_class relation
JOIN pg_attribute attribute ON attribute.attrelid = relation.oid AND attribute.attnum > 0 AND NOT attribute.attisdropped
WHERE relation.relnamespace = 'public'::regnamespace AND relation.relkind IN ('r', 'p') AND NOT relation.relispartition
ORDER BY relation.relname, attribute.attname
"""
# An issued document keeps its copy of the address or name, as long as the law demands.
ISSUED = {"tax_documents.buyer", "tax_documents.record"}
# What must be the same before and after: money, quantities, numbers, proofs.
SUMS = """
SELECT (SELECT string_agg(concat_ws(' ', id, status, payment_state, quantity_grams, offset_cost_minor,
                                    total_cost_minor, commission_minor, tax_minor, refunded_minor), ';' ORDER BY id)
        FROM orders) AS orders,
       (SELECT string_agg(charges::text, ';' ORDER BY id) FROM charges) AS charges,
       (SELECT string_agg(invoices::text, ';' ORDER BY id) FROM invoices) AS invoices,
       (SELECT string_agg(concat_ws(' ', id, amount_minor, state), ';' ORDER BY id) FROM refunds) AS refunds,
       (SELECT string_agg(retired_totals::text, ';' ORDER BY retired_totals::text) FROM retired_totals) AS totals,
       (SELECT string_agg(shares::text, ';' ORDER BY shares::text) FROM shares) AS shares,
       (SELECT string_agg(concat_ws(' ', number, state, issued_at), ';' ORDER BY number) FROM certificates)
           AS certificates,
       (SELECT string_agg(certificate_documents::text, ';' ORDER BY number, sha256) FROM certificate_documents)
           AS documents,
       (SELECT string_agg(concat_ws(' ', id, position, event_type, sequence), ';' ORDER BY position) FROM events
        WHERE event_type <> 'order.person_erased') AS events,
       (SELECT count(*) FROM mails) AS mails
"""


async def list_columns(database: Database) -> dict[str, dict[str, str]]:
    """The types of all columns, by table and column."""
    found: defaultdict[str, dict[str, str]] = defaultdict(dict)
    async with database.connection() as connection:
        for row in await connection.fetch(COLUMNS):
            found[row["table"]][row["column"]] = row["type"]
    return dict(found)


async def columns_with(database: Database, *needles: str) -> set[str]:
    """The columns, as `table.column`, that contain one of these texts, however it is written there."""
    pattern = re.compile("|".join(map(re.escape, needles)), re.IGNORECASE)
    found = set()
    columns = await list_columns(database)
    async with database.connection() as connection:
        for table in columns:
            for row in await _rows(connection, table):
                found |= {f"{table}.{name}" for name, value in row.items() if pattern.search(_text(value))}
    return found


async def read_sums(database: Database) -> dict[str, Any]:
    async with database.connection() as connection:
        return dict(await connection.fetchrow(SUMS) or {})


async def _rows(connection: Connection, table: str) -> list[dict[str, Any]]:
    return [dict(row) for row in await connection.fetch(f'SELECT * FROM "{table}"')]  # noqa: S608 - a table of ours


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return _text_of_bytes(value)
    text = str(value)
    if text.startswith(("{", "[", '"')):
        # JSON may write a letter as an escape.
        try:
            return f"{text} {json.dumps(json.loads(text), ensure_ascii=False)}"
        except ValueError:
            return text
    return text


def _text_of_bytes(value: bytes) -> str:
    value = _decompressed(value)
    text = value.decode("utf-8", "replace")
    if b"Subject:" in value[:2000]:
        message = message_from_bytes(value, policy=SMTP)
        parts = [part.get_content() for part in message.walk() if part.get_content_maintype() == "text"]
        return " ".join([text, *map(str, message.values()), *map(str, parts)])
    return f"{text} {_text(text)}" if text.startswith("{") else text


def _decompressed(value: bytes) -> bytes:
    try:
        return decompress_json(value)
    except Exception:  # noqa: BLE001 - it is not compressed
        return value
