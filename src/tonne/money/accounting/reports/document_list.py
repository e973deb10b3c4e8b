"""All invoices, simplified invoices and credit notes, newest first, for the pages of finance."""

from collections.abc import Sequence
from datetime import date
from typing import NamedTuple

import asyncpg
from msgspec import Struct

from tonne.money.invoices.tax_documents import TaxDocument
from tonne.platform.db.database import Connection, optional, parameters_of, value_of
from tonne.platform.values.amounts import DECIMALS, parse_typed, scaled
from tonne.platform.values.context import Mode, Tenant

# A page looks for amounts and names in so many documents, from the newest on: no search is slow, however many there
# are. Numbers are looked up among all.
SCANNED = 20_000
_LARGEST = 2**63 - 1


class ListedDocument(TaxDocument, frozen=True, kw_only=True):
    """With the number of the document that it corrects or replaces, and the state of an invoice that is in force."""

    corrected: str | None
    replaces: str | None
    replaced_by: str | None
    status: str | None
    due_on: date | None
    is_credited: bool
    is_taken_back: bool
    # Of somebody who paid at checkout: not the organisation.
    is_of_customer: bool


class ListPlace(NamedTuple):
    issued_on: date
    id: str


class FoundDocuments(NamedTuple):
    """A page of a list. `scanned_until` is where a search ended that found no more, if there are older documents."""

    documents: Sequence[ListedDocument]
    scanned_until: ListPlace | None


class DocumentSearch(Struct, frozen=True):
    """The documents after a place, with an amount or a number, or a part of the buyer's name or of the number."""

    before: date
    before_id: str
    limit: int
    amounts: list[int] | None = None
    number: int | None = None
    text: str | None = None
    scanned: int = SCANNED

    def ends_with(self, found: int) -> bool:
        """Whether a search found so many, and no more."""
        return found < self.limit and (self.amounts is not None or self.text is not None)


def read_search(text: str, before: tuple[date, str], limit: int) -> DocumentSearch:
    """An amount is that of any currency: 12.50 are 1,250 cents, and 12,500 thousandths."""
    number = parse_typed(text)
    found = {scaled(number, digits) for digits in set(DECIMALS.values())} if number is not None else set()
    amounts = sorted(each for each in found if each is not None and 0 <= each <= _LARGEST)
    if not amounts:
        return DocumentSearch(*before, limit, text=text or None, scanned=SCANNED if text else limit)
    exact = amounts[0] if amounts[0] == number else None
    return DocumentSearch(*before, limit, amounts=amounts, number=exact, scanned=SCANNED)


_FIELDS = "id, kind, organisation_id, mode, number, reference, currency, total_minor, tax_minor, issued_on, corrects"
_AFTER = "FROM tax_documents WHERE (issued_on, id) < ($1::date, $2)"


def _found(owner: str) -> str:
    """The matches among those that are scanned, and those of all with the number or the reference."""
    return f"""(
    SELECT {_FIELDS} FROM (
        SELECT {_FIELDS}, buyer {_AFTER} AND {owner} ORDER BY issued_on DESC, id DESC LIMIT $7
    ) AS newest
    WHERE ($4::bigint[] IS NULL OR total_minor = ANY ($4))
      AND ($6::text IS NULL OR strpos(lower(buyer), lower($6)) > 0 OR strpos(lower(reference), lower($6)) > 0)
    UNION
    SELECT {_FIELDS} {_AFTER} AND {owner} AND series IN ('TN', 'TS', 'CN') AND number = $5::bigint
    UNION
    SELECT {_FIELDS} {_AFTER} AND {owner} AND reference = upper($6)
    ORDER BY issued_on DESC, id DESC LIMIT $3
)"""  # noqa: S608 - constants


_DOCUMENT = """
found.id, found.kind, found.organisation_id, found.mode, found.number, found.reference, found.currency,
       found.total_minor, found.tax_minor, found.issued_on, found.corrects, document.record,
       corrected.reference AS corrected, replaced.reference AS replaces, next.reference AS replaced_by,
       CASE WHEN next.id IS NULL THEN invoice.status END AS status, invoice.due_on,
       coalesce(invoice.credited_minor > 0, false) AS is_credited,
       note.taken_back_by IS NOT NULL AND note.cause <> 'replacement' AS is_taken_back,
       coalesce(invoice.is_prepaid, false)
       AND EXISTS (SELECT FROM invoice_orders billed
                   JOIN orders ON orders.account_id = billed.account_id AND orders.id = billed.order_id
                   WHERE billed.invoice_id = invoice.id AND orders.offset_link_id IS NOT NULL) AS is_of_customer
"""
_STATE = """
JOIN tax_documents document ON document.id = found.id
LEFT JOIN tax_documents corrected ON corrected.id = found.corrects
LEFT JOIN credit_notes cancelling ON cancelling.id = found.corrects AND cancelling.cause = 'replacement'
LEFT JOIN tax_documents replaced ON replaced.id = corrected.corrects AND cancelling.id IS NOT NULL
LEFT JOIN invoices invoice ON invoice.id = coalesce(cancelling.invoice_id, found.id)
LEFT JOIN LATERAL (
    SELECT following.id, following.reference
    FROM credit_notes later JOIN tax_documents cancelled ON cancelled.id = later.id
    JOIN tax_documents following ON following.id = later.taken_back_by
    WHERE later.invoice_id = invoice.id AND later.cause = 'replacement' AND cancelled.corrects = found.id
) AS next ON true
LEFT JOIN credit_notes note ON note.id = found.id
ORDER BY found.issued_on DESC, found.id DESC
"""
_LAST = "ORDER BY issued_on DESC, id DESC OFFSET $3 - 1 LIMIT 1"
_SEARCH = "before, before_id, limit, amounts, number, text, scanned"
LIST_OF_ORGANISATION = f"""
SELECT {_DOCUMENT} FROM {_found("organisation_id = $8 AND mode = $9")} AS found {_STATE}
"""  # noqa: S608 - constants


async def list_documents(connection: Connection, tenant: Tenant, search: DocumentSearch) -> FoundDocuments:
    rows = await connection.fetch(LIST_OF_ORGANISATION, *parameters_of(search, _SEARCH), *tenant)
    end = await _find_end(connection, tenant, search) if search.ends_with(len(rows)) else None
    return FoundDocuments([value_of(ListedDocument, row) for row in rows], end)


FIND_END_OF_ORGANISATION = f"""
SELECT issued_on, id {_AFTER} AND mode = $4 AND organisation_id = $5 {_LAST}
"""


async def _find_end(connection: Connection, tenant: Tenant, search: DocumentSearch) -> ListPlace | None:
    values = (search.before, search.before_id, search.scanned, tenant.mode, tenant.organisation_id)
    return optional(_place, await connection.fetchrow(FIND_END_OF_ORGANISATION, *values))


LIST_ALL = f"""
SELECT {_DOCUMENT} FROM {_found("mode = $8")} AS found {_STATE}
"""  # noqa: S608 - constants


FIND_END_OF_ALL = f"""
SELECT issued_on, id {_AFTER} AND mode = $4 {_LAST}
"""


async def list_documents_any_account(connection: Connection, mode: Mode, search: DocumentSearch) -> FoundDocuments:
    rows, end = await connection.fetch(LIST_ALL, *parameters_of(search, _SEARCH), mode), None
    if search.ends_with(len(rows)):
        place = (search.before, search.before_id, search.scanned, mode)
        end = optional(_place, await connection.fetchrow(FIND_END_OF_ALL, *place))
    return FoundDocuments([value_of(ListedDocument, row) for row in rows], end)


def _place(row: asyncpg.Record) -> ListPlace:
    return ListPlace(**row)
