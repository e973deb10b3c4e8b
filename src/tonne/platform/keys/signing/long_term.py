"""What lets a reader check a signed PDF after its certificates have expired (PAdES B-LT and B-LTA)."""

import asyncio
import io
from collections.abc import Sequence

from asn1crypto import cms, x509
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.fields import SigFieldSpec
from pyhanko.sign.general import extract_certificate_info
from pyhanko.sign.signers.cms_embedder import PdfCMSEmbedder, SigIOSetup, SigObjSetup
from pyhanko.sign.signers.pdf_byterange import DocumentTimestamp
from pyhanko.sign.validation.dss import DocumentSecurityStore
from pyhanko.sign.validation.generic_cms import extract_tst_data_iter
from pyhanko_certvalidator import CertificateValidator, ValidationContext
from pyhanko_certvalidator.errors import PathError, ValidationError
from pyhanko_certvalidator.fetchers.aiohttp_fetchers import AIOHttpFetcherBackend
from pyhanko_certvalidator.path import ValidationPath

from tonne.platform.keys.signing.cms_template import DIGEST
from tonne.platform.keys.signing.document_key import KeyUnusable
from tonne.platform.keys.signing.sign_pdf import TIME_STAMP_BYTES, SameBytesWriter, TimeStamps


def add_validation_data(pdf: bytes) -> bytes:
    """B-LT: the certificates of the signature and of its time stamp, and who says that they are not revoked.

    Blocks: call it in a thread. Raises KeyUnusable.
    """
    (signature,) = PdfFileReader(io.BytesIO(pdf)).embedded_regular_signatures
    stamps = extract_tst_data_iter(signature.signer_info, signed=False)
    writer = SameBytesWriter(io.BytesIO(pdf))
    _add_data(writer, [signature.signed_data, *stamps])
    writer.write_in_place()  # type: ignore[no-untyped-call]
    return bytes(writer.prev.stream.getvalue())


def add_document_time_stamp(pdf: bytes, time_stamps: TimeStamps) -> bytes:
    """B-LTA: a time stamp of the whole file, and the validation data of the previous time stamp.

    `time_stamps` gets a SHA-256 hash. Blocks: call it in a thread. Raises KeyUnusable.
    """
    reader = PdfFileReader(io.BytesIO(pdf))
    stamped = reader.embedded_timestamp_signatures
    if stamped:
        last = stamped[-1].signed_data
    else:
        (signature,) = reader.embedded_regular_signatures
        *_, last = extract_tst_data_iter(signature.signer_info, signed=False)
    writer = SameBytesWriter(io.BytesIO(pdf))
    _add_data(writer, [last])
    field = f"TimeStamp{len(stamped) + 1}"
    embedding = PdfCMSEmbedder(SigFieldSpec(field)).write_cms(field, writer)
    next(embedding)
    # Two digits per byte.
    placeholder = DocumentTimestamp(bytes_reserved=2 * TIME_STAMP_BYTES)  # type: ignore[no-untyped-call]
    embedding.send(SigObjSetup(placeholder))
    prepared, file = embedding.send(SigIOSetup(DIGEST, in_place=True))
    embedding.send(time_stamps(prepared.document_digest))
    return bytes(file.getvalue())


def _add_data(writer: SameBytesWriter, signed: Sequence[cms.SignedData]) -> None:
    try:
        context, paths = asyncio.run(_fetch(signed))
    except (PathError, ValidationError) as error:
        raise KeyUnusable(
            f"The validation data of a signature cannot be fetched ({error}). Check that this machine reaches the "
            "servers that the certificates name for revocation lists and OCSP."
        ) from error
    DocumentSecurityStore.supply_dss_in_writer(writer, None, paths=paths, validation_context=context)


async def _fetch(signed: Sequence[cms.SignedData]) -> tuple[ValidationContext, list[ValidationPath]]:
    found = [extract_certificate_info(each) for each in signed]
    roots = [_highest(each.signer_cert, each.other_certs) for each in found]
    fetcher = AIOHttpFetcherBackend()
    try:
        context = ValidationContext(
            trust_roots=roots, allow_fetching=True, revocation_mode="hard-fail", fetcher_backend=fetcher
        )
        validators = [CertificateValidator(each.signer_cert, each.other_certs, context) for each in found]
        paths = [await each.async_validate_usage(set()) for each in validators]  # type: ignore[no-untyped-call]
        return context, paths
    finally:
        await fetcher.close()  # type: ignore[no-untyped-call]


def _highest(own: x509.Certificate, others: Sequence[x509.Certificate]) -> x509.Certificate:
    """The end of the chain that the signer or the authority sent along. Who checks the file decides whom to trust."""
    above = {each.subject.hashable: each for each in others}
    highest = own
    while highest.issuer != highest.subject and (issuer := above.pop(highest.issuer.hashable, None)) is not None:
        highest = issuer
    return highest
