"""What may follow the signature of a PDF: data to validate it later, and document time stamps. Nothing else.

Whoever keeps a certificate for decades adds them (PAdES B-LT and B-LTA). They say nothing that this program relies on:
all facts are read from what was signed.
"""

from io import BytesIO

from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.diff_analysis import DiffResult, ModificationLevel
from pyhanko.sign.validation import validate_pdf_timestamp
from pyhanko.sign.validation.pdf_embedded import EmbeddedPdfSignature
from pyhanko.sign.validation.status import SignatureCoverageLevel
from pyhanko_certvalidator import ValidationContext

from tonne_verify.errors import NotProven

ADDED = "Something was added to the PDF after it was signed, or the end of the file is missing."


def find_signature(data: bytes) -> EmbeddedPdfSignature:
    """The only signature, besides document time stamps."""
    signatures: list[EmbeddedPdfSignature] = PdfFileReader(BytesIO(data)).embedded_regular_signatures
    if not signatures:
        raise NotProven("The PDF is not signed. It was drawn before signing was introduced, or somebody made it anew.")
    if len(signatures) > 1:
        raise NotProven("The PDF has more than one signature. Ask for the file as the seller made it.")
    return signatures[0]


def signed_part(data: bytes) -> bytes:
    """The file as it was signed. Raises NotProven if anything but validation data and time stamps follows."""
    signature = find_signature(data)
    byte_range = [int(each) for each in signature.byte_range]
    if len(byte_range) != 4 or byte_range[0] != 0:
        raise NotProven("The signature does not cover the file from its start.")
    end = byte_range[2] + byte_range[3]
    if end < len(data):
        _check_updates(data, end, signature)
    elif end > len(data):
        raise NotProven(ADDED)
    return data[:end]


def _modification(signature: EmbeddedPdfSignature) -> ModificationLevel:
    signature.compute_integrity_info()  # type: ignore[no-untyped-call]
    found: object = signature.diff_result
    if signature.coverage < SignatureCoverageLevel.ENTIRE_REVISION or not isinstance(found, DiffResult):
        return ModificationLevel.OTHER
    return found.modification_level


def _check_updates(data: bytes, end: int, signature: EmbeddedPdfSignature) -> None:
    # Text behind the last revision, which readers ignore, is not an update.
    place = data.rpartition(b"startxref")[2].split()[:1]
    if not data.rstrip(b"\r\n").endswith(b"%%EOF") or not place or not place[0].isdigit() or int(place[0]) < end:
        raise NotProven(ADDED)
    if _modification(signature) > ModificationLevel.LTA_UPDATES:
        raise NotProven(ADDED)
    for stamp in signature.reader.embedded_timestamp_signatures:
        status = validate_pdf_timestamp(stamp, ValidationContext(trust_roots=[], allow_fetching=False))
        if not (status.intact and status.valid):
            raise NotProven("A document time stamp that was added to the PDF is wrong.")
