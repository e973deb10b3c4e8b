"""HTTP endpoints: the credit notes of an order, as a list and as PDFs."""

from collections.abc import Mapping
from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.money.invoices.credit_notes import store as credit_note_store
from tonne.money.invoices.credit_notes.credit_note import CreditCause, CreditNote
from tonne.money.invoices.errors import CreditNoteNotFound, InvoiceNotAvailable
from tonne.money.invoices.originals.originals import Originals
from tonne.money.invoices.originals.respond import FORMAT, ORIGINAL, original_response
from tonne.money.invoices.tax_documents import find_document, find_references
from tonne.platform.db.database import Database
from tonne.platform.http.route import Parameter, Request, Response, Route, RouteMaker
from tonne.platform.keys.signing.errors import SigningUnavailable
from tonne.platform.values.amounts import format_money
from tonne.platform.values.context import same_named
from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.accounts.keys.store import find_key_kind
from tonne.selling.accounts.model import AccountKind
from tonne.selling.orders.errors import OrderNotFound
from tonne.selling.orders.load import load_order

TAKEN_BACK_BY = "taken_back_by"
DOCUMENT = Parameter("document", f"`{TAKEN_BACK_BY}`: that invoice.", {"type": "string", "enum": [TAKEN_BACK_BY]})


class CreditNoteOut(msgspec.Struct, frozen=True):
    id: Annotated[str, Meta(description="Its id.", examples=["crn_01jcq4w9t6x2m8k3v5n7p0r1s2"])]
    number: Annotated[str, Meta(description="Its number.", examples=["CN-TEST-000001"])]
    invoice_number: Annotated[
        str, Meta(description="The invoice that it cancels or reduces.", examples=["TN-TEST-000001"])
    ]
    issued_on: Annotated[str, Meta(description="The date of issue, in UTC.", examples=["2026-03-05"])]
    total: Annotated[
        str,
        Meta(description="What it takes off the invoice, for all its orders.", examples=["13.95"]),
    ]
    currency: Annotated[str, Meta(description="ISO 4217 code.", examples=["EUR"])]
    cause: Annotated[CreditCause, Meta(description="Why it was issued.", examples=["cancellation"])]
    reason: Annotated[str | None, Meta(description="The reason, if given.", examples=["Ordered twice"])]
    taken_back_by: Annotated[
        str | None,
        Meta(description="The invoice that takes it back, or replaces the cancelled one.", examples=[None]),
    ]


class CreditNotesOut(msgspec.Struct, frozen=True):
    data: Annotated[list[CreditNoteOut], Meta(description="Newest first.")]


class CreditNoteEndpoints(msgspec.Struct, frozen=True):
    database: Database
    originals: Originals

    async def list_credit_notes(self, request: Request) -> Response:
        """List the credit notes of an order.

        They cancel its invoice or reduce it. The list has no pages.
        """
        order_id = request.path("order_id")
        async with self.database.connection() as connection:
            notes = await credit_note_store.list_credit_notes_of_order(connection, request.scope, order_id)
            if not notes and await load_order(connection, request.scope, order_id) is None:
                raise OrderNotFound
            ids = [note.taken_back_by for note in notes if note.taken_back_by is not None]
            following = await find_references(connection, request.scope.tenant, ids)
        return Response(msgspec.json.encode(CreditNotesOut([_wire(note, following) for note in notes])))

    async def read_credit_note(self, request: Request) -> Response:
        """Read a credit note as a PDF.

        One for orders of several accounts needs a key of the organisation's own accounts.
        """
        note = await self._find(request)
        [wanted] = request.query("document")
        if wanted not in {None, TAKEN_BACK_BY}:
            raise Invalid([Fault("validation_error", f"document must be {TAKEN_BACK_BY}.", "document")])
        if wanted is None:
            return await original_response(request, self.originals, note)
        async with self.database.connection() as connection:
            numbers = await find_references(connection, request.scope.tenant, [note.taken_back_by or ""])
            found = [await find_document(connection, request.scope.tenant, number) for number in numbers.values()]
        if not found or found[0] is None:
            raise InvoiceNotAvailable("This credit note was not taken back.")
        return await original_response(request, self.originals, found[0])

    async def _find(self, request: Request) -> CreditNote:
        scope, note_id = request.scope, request.path("credit_note_id")
        async with self.database.connection() as connection:
            kind = await find_key_kind(connection, scope.organisation_id, request.actor.name)
            sees_others = kind is AccountKind.ACCOUNT and request.accounts is None
            note = await credit_note_store.find_credit_note(connection, scope, note_id, with_others=sees_others)
        if note is None:
            raise CreditNoteNotFound
        return note


def _wire(note: CreditNote, following: Mapping[str, str]) -> CreditNoteOut:
    return same_named(
        CreditNoteOut,
        note,
        number=note.reference,
        invoice_number=note.read_record().invoice_number,
        issued_on=note.issued_on.isoformat(),
        total=format_money(note.total_minor, note.currency),
        taken_back_by=following.get(note.taken_back_by or ""),
    )


def credit_note_routes(endpoints: CreditNoteEndpoints) -> list[Route]:
    route, listed, one = RouteMaker("Orders"), "/v1/orders/{order_id}/credit-notes", "/v1/credit-notes/{credit_note_id}"
    return [
        route(
            f"GET {listed}", endpoints.list_credit_notes, CreditNotesOut, OrderNotFound, operation_id="listCreditNotes"
        ),
        route(
            f"GET {one}",
            endpoints.read_credit_note,
            {200: ORIGINAL, 304: None},
            CreditNoteNotFound,
            InvoiceNotAvailable,
            SigningUnavailable,
            operation_id="downloadCreditNote",
            query=(FORMAT, DOCUMENT),
        ),
    ]
