"""Sign a PDF (PAdES). The only module that uses pyHanko to write PDF files."""

import hashlib
import io
from collections.abc import Callable
from datetime import UTC, datetime

from asn1crypto import cms
from pyhanko.pdf_utils import generic
from pyhanko.pdf_utils.incremental_writer import IncrementalPdfFileWriter
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.fields import MDPPerm, SigFieldSpec, SigSeedSubFilter
from pyhanko.sign.signers.cms_embedder import PdfCMSEmbedder, SigIOSetup, SigMDPSetup, SigObjSetup
from pyhanko.sign.signers.pdf_byterange import SignatureObject

from tonne.platform.keys.signing.cms_template import DIGEST, with_time_stamp
from tonne.platform.keys.signing.document_key import DocumentKey

FIELD = "Signature"
# Room for a time stamp with the certificates of its authority.
TIME_STAMP_BYTES = 12 * 1024
# Gets the time stamp of a signature.
TimeStamps = Callable[[bytes], cms.ContentInfo]


class SameBytesWriter(IncrementalPdfFileWriter):
    """Writes no random id and no time of its own: the same file gives the same bytes."""

    @classmethod
    def _handle_id(cls, prev: PdfFileReader) -> generic.ArrayObject:
        """The second id changes with the content, as PDF demands."""
        changed = hashlib.sha256(prev.stream.getbuffer()).digest()[:16]
        try:
            first, _ = prev.trailer["/ID"]
        except KeyError:
            first = generic.ByteStringObject(changed)
        if isinstance(first, generic.TextStringObject):
            first = generic.ByteStringObject(first.original_bytes)
        return generic.ArrayObject([first, generic.ByteStringObject(changed)])

    def _prep_dom_for_writing(self) -> None:
        """The metadata stay as they are: pyHanko would write the current time into them."""


def sign_pdf(pdf: bytes, key: DocumentKey, issued_at: datetime, time_stamps: TimeStamps | None = None) -> bytes:
    """Add an invisible signature after which no change of the document is allowed.

    The same file, key and time give the same bytes, except with time stamps. The signature is dated `issued_at`, or
    when the certificate became valid, if that is later. CPU-bound: call it through `asyncio.to_thread`.
    """
    signed_at = max(issued_at, key.valid_from).astimezone(UTC).replace(microsecond=0)
    room = key.template.size + (0 if time_stamps is None else TIME_STAMP_BYTES)
    embedding = PdfCMSEmbedder(SigFieldSpec(FIELD)).write_cms(FIELD, SameBytesWriter(io.BytesIO(pdf)))
    next(embedding)
    # Two digits per byte.
    placeholder = SignatureObject(signed_at, SigSeedSubFilter.PADES, bytes_reserved=2 * room)
    embedding.send(SigObjSetup(placeholder, SigMDPSetup(DIGEST, certify=True, docmdp_perms=MDPPerm.NO_CHANGES)))
    prepared, file = embedding.send(SigIOSetup(DIGEST, in_place=True))
    signed = key.template.sign(prepared.document_digest)
    if time_stamps is not None:
        signed = with_time_stamp(signed, time_stamps(signature_of(signed)))
    embedding.send(signed)
    return bytes(file.getvalue())


def signature_of(signed: bytes) -> bytes:
    """The bare signature in a signature object."""
    value: bytes = cms.ContentInfo.load(signed)["content"]["signer_infos"][0]["signature"].native
    return value
