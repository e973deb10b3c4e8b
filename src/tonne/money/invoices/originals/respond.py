"""Responses with the original of a document."""

from tonne.money.invoices.errors import InvoiceNotAvailable
from tonne.money.invoices.originals.document_file import MEDIA_TYPES, FileFormat
from tonne.money.invoices.originals.originals import Originals, file_name
from tonne.money.invoices.tax_documents import TaxDocument
from tonne.platform.http.route import FileType, Parameter, Request, Response
from tonne.platform.values.errors import Fault, Invalid

FORMAT = Parameter(
    "format",
    "`cii`: the electronic invoice in the PDF; `ubl`: that for Peppol or XRechnung.",
    {"type": "string", "enum": [each.value for each in FileFormat]},
)
ORIGINAL = FileType(tuple(dict.fromkeys(MEDIA_TYPES.values())))
NO_SUCH_FILE = (
    "This document has no electronic invoice in this format. For UBL, choose the format on the page Tax of the "
    "organisation: it applies to documents that are issued from then on."
)


def read_format(request: Request) -> FileFormat:
    """Raises Invalid."""
    [wanted] = request.query("format")
    if wanted is not None and wanted not in set(FileFormat):
        raise Invalid([Fault("validation_error", "format must be pdf, cii or ubl.", "format")])
    return FileFormat(wanted or FileFormat.PDF)


async def original_response(request: Request, originals: Originals, document: TaxDocument) -> Response:
    """The file; 304 if the client has it. Raises SigningUnavailable, or InvoiceNotAvailable if it has no such file."""
    wanted = read_format(request)
    file = await originals.file(document, wanted)
    if file is None:
        raise InvoiceNotAvailable(NO_SUCH_FILE)
    vary = f"Authorization, {originals.settings.brand}-Account"
    headers = {"Cache-Control": "private, no-cache", "ETag": file.tag, "Vary": vary}
    known = request.headers.get(b"if-none-match")
    if known is not None and file.tag in known.decode("latin-1"):
        return Response(b"", 304, headers=headers)
    headers["Content-Disposition"] = f'inline; filename="{file_name(document, wanted)}"'
    return Response(file.read(), 200, MEDIA_TYPES[wanted].encode(), headers)
