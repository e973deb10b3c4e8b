"""Invoices and credit notes for the pages of organisations and of the operator: their files, and lists of them."""

from datetime import date
from urllib.parse import urlencode

from msgspec import Struct

from tonne.apps.dashboard.list_place import read_day
from tonne.apps.dashboard.viewer import existing
from tonne.money.accounting.reports.document_list import (
    DocumentSearch,
    FoundDocuments,
    ListedDocument,
    ListPlace,
    read_search,
)
from tonne.money.invoices.model import StateInWords
from tonne.money.invoices.originals.document_file import MEDIA_TYPES, FileFormat
from tonne.money.invoices.originals.originals import Originals, file_name
from tonne.money.invoices.tax_documents import DocumentKind, TaxDocument
from tonne.platform.http.route import Request, Response
from tonne.platform.values.context import Mode

LIST, FILE = "/documents", "/documents/{number}/{format}"
PAGE = 30


async def file_response(originals: Originals, document: TaxDocument, named: str) -> Response:
    """Raises DashboardPageNotFound if there is no such format, or the document does not have it."""
    wanted = existing(next((each for each in FileFormat if each == named), None))
    file = existing(await originals.file(document, wanted))
    return download(file.read(), file_name(document, wanted), MEDIA_TYPES[wanted])


def download(content: bytes, name: str, media_type: str = "application/pdf") -> Response:
    headers = {"Content-Disposition": f'inline; filename="{name}"', "Cache-Control": "private, no-store"}
    return Response(content, 200, media_type.encode(), headers)


class DocumentRows(Struct, frozen=True):
    """A page of a list, each document with its state. `next_query` leads to the next one.

    `scanned_until` is set if a search ended there, and there are older documents.
    """

    rows: list[tuple[ListedDocument, StateInWords]]
    text: str
    next_query: str | None
    scanned_until: date | None


def read_query(request: Request) -> tuple[DocumentSearch, str]:
    text, after = request.query("q", "after")
    text = (text or "").strip()[:100]
    return read_search(text, read_day(after, date.max), PAGE + 1), text


def rows_of(found: FoundDocuments, text: str, today: date) -> DocumentRows:
    shown, end = found.documents[:PAGE], found.scanned_until
    place = ListPlace(shown[-1].issued_on, shown[-1].id) if len(found.documents) > PAGE else end
    chosen = {"q": text} if text else {}
    query = None if place is None else urlencode(chosen | {"after": f"{place.issued_on}_{place.id}"})
    rows = [(each, _state_of(each, today)) for each in shown]
    return DocumentRows(rows, text, query, None if end is None else end.issued_on)


def _state_of(document: ListedDocument, today: date) -> StateInWords:
    if document.kind is DocumentKind.CREDIT_NOTE:
        return StateInWords("Taken back", "warn") if document.is_taken_back else StateInWords("Issued")
    match document.status:
        case None:
            return StateInWords("Replaced", "warn") if document.replaced_by else StateInWords("Issued")
        case "cancelled":
            return StateInWords("Cancelled", "warn")
        case "paid":
            return StateInWords("Paid, credited in part" if document.is_credited else "Paid")
    if document.mode is Mode.LIVE and document.due_on is not None and document.due_on < today:
        return StateInWords("Overdue", "bad")
    return StateInWords("Open, credited in part" if document.is_credited else "Open", "warn")
