"""Responses with the original of a document."""

from tonne.money.invoices.originals.originals import Document, Originals
from tonne.platform.http.route import Request, Response


async def original_response(request: Request, originals: Originals, document: Document) -> Response:
    """The PDF; 304 if the client has it. Raises SigningUnavailable."""
    file = await originals.pdf(document)
    vary = f"Authorization, {originals.settings.brand}-Account"
    headers = {"Cache-Control": "private, no-cache", "ETag": file.tag, "Vary": vary}
    known = request.headers.get(b"if-none-match")
    if known is not None and file.tag in known.decode("latin-1"):
        return Response(b"", 304, headers=headers)
    headers["Content-Disposition"] = f'inline; filename="{document.reference}.pdf"'
    return Response(file.read(), 200, b"application/pdf", headers)
