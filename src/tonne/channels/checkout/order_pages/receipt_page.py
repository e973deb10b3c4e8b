"""The receipt of an order, as a page to print and as a PDF."""

from msgspec import Struct

from tonne.channels.checkout.errors import OrderPageNotFound
from tonne.channels.checkout.order_pages.linked_order import load_linked_order
from tonne.channels.checkout.paying.attempt_limit import AttemptLimit
from tonne.money.receipts.receipt import ReceiptFacts, read_receipt, receipt_pdf, write_receipt
from tonne.platform.db.database import Database
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Request, Response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.platform.values.language import N_
from tonne.platform.web.render import Renderer
from tonne.platform.web.visitor_language import visitor_language
from tonne.platform.web.wording import LocalWording, wording_in
from tonne.supply.certificates.credentials.render_certificate import PDF


class ReceiptPage(Struct, frozen=True, kw_only=True):
    database: Database
    renderer: Renderer
    settings: Settings
    pdf_limit: AttemptLimit

    @property
    def limits(self) -> tuple[TokenBuckets, ...]:
        return (self.pdf_limit.buckets,)

    async def show(self, request: Request) -> Response:
        found = await self._find(request)
        language = visitor_language(request, found.order.language)
        wording = LocalWording(language.translator, language.locale)
        return self.renderer.page(
            request,
            "receipt.html",
            default_language=found.order.language,
            test_mode=found.order.scope.mode is Mode.TEST,
            token=request.path("token"),
            merchant=found.merchant,
            receipt=write_receipt(found, wording, self.settings),
        )

    async def pdf(self, request: Request) -> Response:
        """In the language of the order. Limited: rendering a PDF costs CPU time."""
        self.pdf_limit.count(request)
        found = await self._find(request)
        pdf = await receipt_pdf(found, wording_in(found.order.language), self.settings)
        name = f'inline; filename="receipt-{found.order.id}.pdf"'
        return Response(pdf, media_type=PDF, headers={"content-disposition": name, "Cache-Control": "no-store"})

    async def _find(self, request: Request) -> ReceiptFacts:
        async with self.database.snapshot() as connection:
            order = await load_linked_order(connection, request.path("token"))
            found = await read_receipt(connection, order)
        if found is None:
            raise OrderPageNotFound(N_("There is no receipt yet, because the order is not paid."))
        return found
