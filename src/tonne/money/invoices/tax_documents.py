"""The record of every tax document: its number in a series, and its content, which never changes.

Invoices, simplified invoices and credit notes are rows of `tax_documents`. Their state is in `invoices` and
`credit_notes`, under the same id.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime
from enum import StrEnum

import msgspec

from tonne.money.invoices.documents.einvoice_fields import check_record, ubl_format
from tonne.money.invoices.documents.electronic_credit_note import electronic_credit_note
from tonne.money.invoices.documents.positions import is_electronic
from tonne.money.invoices.documents.record import CreditNoteRecord, InvoiceRecord
from tonne.money.invoices.originals.document_file import FileFormat
from tonne.money.invoices.originals.file_store import queue_rendering_any_account
from tonne.platform.db.database import Connection, columns, optional, value_of
from tonne.platform.values.context import Mode, Tenant

WIDTH = 6


class DocumentKind(StrEnum):
    INVOICE = "invoice"
    SIMPLIFIED_INVOICE = "simplified_invoice"
    CREDIT_NOTE = "credit_note"

    @property
    def series(self) -> str:
        return _SERIES[self]


_SERIES = {DocumentKind.INVOICE: "TN", DocumentKind.SIMPLIFIED_INVOICE: "TS", DocumentKind.CREDIT_NOTE: "CN"}


class _CodedTax(msgspec.Struct, frozen=True):
    code: str
    tax: str


class _Named(msgspec.Struct, frozen=True):
    name: str


class _Stated(msgspec.Struct, frozen=True):
    """What a record says about its buyer and its tax."""

    buyer: _Named
    taxes: list[_CodedTax] = []
    tax_point: str = "invoice"


class TaxDocument(msgspec.Struct, frozen=True, kw_only=True):
    """`record` is the issued content as JSON."""

    id: str
    kind: DocumentKind
    organisation_id: str
    mode: Mode
    number: int
    reference: str
    currency: str
    total_minor: int
    tax_minor: int | None = None
    issued_on: date
    corrects: str | None = None
    record: bytes

    @property
    def series(self) -> str:
        return self.kind.series

    @property
    def in_force(self) -> "TaxDocument":
        """Itself, unless it is an invoice that another one replaced."""
        return self

    def read_content(self) -> InvoiceRecord | CreditNoteRecord:
        if self.kind is DocumentKind.CREDIT_NOTE:
            return msgspec.json.decode(self.record, type=CreditNoteRecord)
        return msgspec.json.decode(self.record, type=InvoiceRecord)

    def electronic(self) -> InvoiceRecord:
        """The record that electronic invoices are made of."""
        found = self.read_content()
        return electronic_credit_note(found) if isinstance(found, CreditNoteRecord) else found

    @property
    def formats(self) -> list[FileFormat]:
        """The files that it has, or will have."""
        record = self.electronic()
        has = {FileFormat.CII: is_electronic(record), FileFormat.UBL: ubl_format(record) is not None}
        return [each for each in FileFormat if has.get(each, True)]

    @property
    def buyer(self) -> str:
        return msgspec.json.decode(self.record, type=_Stated).buyer.name

    @property
    def tax_lines(self) -> str:
        """The tax of each code in minor units, as JSON. Codes without tax are left out."""
        minor: Counter[str] = Counter()
        for line in msgspec.json.decode(self.record, type=_Stated).taxes:
            minor[line.code] += int(line.tax.replace(".", ""))
        return msgspec.json.encode({code: each for code, each in minor.items() if each}).decode()

    @property
    def tax_point(self) -> str:
        return msgspec.json.decode(self.record, type=_Stated).tax_point


def reference_in(kind: DocumentKind, mode: Mode, number: int) -> str:
    """The number as it is printed: `TN-LIVE-000123`."""
    return f"{kind.series}-{mode.upper()}-{number:0{WIDTH}d}"


TAKE_NUMBERS = """
UPDATE document_series SET last_number = last_number + $3 WHERE mode = $1 AND series = $2 RETURNING last_number
"""


async def take_issue_numbers(
    tx: Connection, kind: DocumentKind, mode: Mode, count: int, now: datetime
) -> tuple[int, date]:
    """The first of the next `count` numbers, and the date of issue. A rollback returns the numbers to the series.

    The row of the series is locked from here to the commit, which makes the numbers gapless.
    """
    last_number: int = await tx.fetchval(TAKE_NUMBERS, mode, kind.series, count)
    first = last_number - count + 1
    # Read while the series is locked: a worker that waited for it over midnight, or whose clock is slow, would
    # otherwise give a higher number an earlier date.
    last_day = await _find_issue_date_any_account(tx, kind, mode, first - 1)
    today = now.astimezone(UTC).date()
    return first, today if last_day is None else max(today, last_day)


class NumberedSeries(msgspec.Struct, frozen=True):
    """`last` is None if nothing was issued yet."""

    kind: DocumentKind
    last: str | None


LIST_SERIES = "SELECT series, last_number FROM document_series WHERE mode = $1"


async def list_series(connection: Connection, mode: Mode) -> list[NumberedSeries]:
    numbers = {row["series"]: row["last_number"] for row in await connection.fetch(LIST_SERIES, mode)}
    return [
        NumberedSeries(kind, reference_in(kind, mode, last) if (last := numbers[kind.series]) else None)
        for kind in DocumentKind
    ]


FIND_ISSUE_DATE = "SELECT issued_on FROM tax_documents WHERE mode = $1 AND series = $2 AND number = $3"


async def _find_issue_date_any_account(tx: Connection, kind: DocumentKind, mode: Mode, number: int) -> date | None:
    day: date | None = await tx.fetchval(FIND_ISSUE_DATE, mode, kind.series, number)
    return day


_COLUMNS = (
    "id, kind, organisation_id, mode, number, reference, currency, total_minor, tax_minor, issued_on, corrects, record"
)
FIND_DOCUMENTS = f"SELECT {_COLUMNS} FROM tax_documents WHERE id = ANY ($1::text[]) ORDER BY id"  # noqa: S608 - columns above


async def find_documents_any_account(connection: Connection, ids: Sequence[str]) -> list[TaxDocument]:
    return [value_of(TaxDocument, row) for row in await connection.fetch(FIND_DOCUMENTS, ids)]


FIND_BY_REFERENCE = f"SELECT {_COLUMNS} FROM tax_documents WHERE reference = $1 AND mode = $2"  # noqa: S608 - columns above


async def find_document_any_account(connection: Connection, reference: str, mode: Mode) -> TaxDocument | None:
    row = await connection.fetchrow(FIND_BY_REFERENCE, reference, mode)
    return optional(lambda found: value_of(TaxDocument, found), row)


async def find_document(connection: Connection, tenant: Tenant, reference: str) -> TaxDocument | None:
    found = await find_document_any_account(connection, reference, tenant.mode)
    return found if found is not None and found.organisation_id == tenant.organisation_id else None


FIND_REFERENCES = """
SELECT id, reference FROM tax_documents WHERE organisation_id = $1 AND mode = $2 AND id = ANY ($3::text[])
"""


async def find_references(connection: Connection, tenant: Tenant, ids: Sequence[str]) -> dict[str, str]:
    """The numbers of documents, by id."""
    rows = await connection.fetch(FIND_REFERENCES, tenant.organisation_id, tenant.mode, ids) if ids else []
    return {row["id"]: row["reference"] for row in rows}


_INSERTED = (
    "id, kind, mode, series, number, reference, organisation_id, currency, total_minor, tax_minor, issued_on, "
    "corrects, record, tax_lines, tax_point, buyer"
)
INSERT_DOCUMENTS = f"""
INSERT INTO tax_documents ({_INSERTED}, created_at)
SELECT {_INSERTED}, $1
FROM unnest($2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[], $8::text[], $9::text[],
            $10::bigint[], $11::bigint[], $12::date[], $13::text[], $14::bytea[],
            $15::jsonb[], $16::text[], $17::text[]) AS issued ({_INSERTED})
"""  # noqa: S608 - columns above


async def insert_documents(tx: Connection, documents: Sequence[TaxDocument], now: datetime) -> None:
    """A worker renders the files of live ones; those of test mode are rendered when they are first read.

    Raises RecordRefused: the transaction then returns their numbers.
    """
    for each in documents:
        check_record(each.electronic())
    await tx.execute(INSERT_DOCUMENTS, now, *columns(documents, _INSERTED))
    live = [each.id for each in documents if each.mode is Mode.LIVE]
    if live:
        await queue_rendering_any_account(tx, live, now)
