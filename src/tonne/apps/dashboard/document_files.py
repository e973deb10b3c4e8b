"""The original of an invoice or credit note, for the pages of organisations and of the operator."""

from tonne.apps.dashboard.viewer import existing
from tonne.money.invoices.originals.document_file import MEDIA_TYPES, FileFormat
from tonne.money.invoices.originals.originals import Originals, file_name
from tonne.money.invoices.tax_documents import TaxDocument
from tonne.platform.http.route import Response

FILE = "/documents/{number}/{format}"


async def file_response(originals: Originals, document: TaxDocument, named: str) -> Response:
    """Raises DashboardPageNotFound if there is no such format, or the document does not have it."""
    wanted = existing(next((each for each in FileFormat if each == named), None))
    file = existing(await originals.file(document, wanted))
    return download(file.read(), file_name(document, wanted), MEDIA_TYPES[wanted])


def download(content: bytes, name: str, media_type: str = "application/pdf") -> Response:
    headers = {"Content-Disposition": f'inline; filename="{name}"', "Cache-Control": "private, no-store"}
    return Response(content, 200, media_type.encode(), headers)
