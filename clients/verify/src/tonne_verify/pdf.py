"""The signature of a PDF (PAdES), checked with pyHanko, and the files that are attached to it."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, timedelta
from io import BytesIO
from typing import Any, TypeVar

from asn1crypto import cms
from cryptography import x509
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.serialization import Encoding
from pyhanko.keys import load_certs_from_pemder_data
from pyhanko.pdf_utils.generic import DictionaryObject
from pyhanko.pdf_utils.reader import PdfFileReader
from pyhanko.sign.validation import validate_pdf_signature
from pyhanko.sign.validation.pdf_embedded import EmbeddedPdfSignature
from pyhanko.sign.validation.settings import KeyUsageConstraints
from pyhanko_certvalidator import ValidationContext

from tonne_verify.der import check_der
from tonne_verify.errors import NotProven
from tonne_verify.issuer import DocumentCertificate, Issuer
from tonne_verify.pdf_updates import ADDED, find_signature, signed_part
from tonne_verify.times import Signing

Result = TypeVar("Result")
MAX_PDF_SIZE = 50_000_000
MAX_ATTACHMENTS = 20
MAX_ATTACHMENT_SIZE = 5_000_000
MAX_TREE_DEPTH = 10
# The algorithms as DER. Tonne uses no others, and each could be written in several ways.
SHA_256 = bytes.fromhex("300d06096086480165030402010500")
SHA_256_WITH_RSA = bytes.fromhex("300d06092a864886f70d01010b0500")


@dataclass(frozen=True, slots=True)
class PdfSignature:
    signer: str
    signing: Signing


def check_pdf(data: bytes, issuer: Issuer) -> PdfSignature:
    """Raises NotProven unless a key of the issuer has signed the file, and no byte of what was signed was changed.

    Only validation data and document time stamps may follow.
    """
    if len(data) > MAX_PDF_SIZE:
        raise NotProven(f"The file is larger than {MAX_PDF_SIZE // 1_000_000} MB. Certificates are not.")
    return _read("The PDF or its signature is damaged", lambda: _check(data, issuer))


def _read(problem: str, read: Callable[[], Result]) -> Result:
    """In a thread: pyHanko starts an event loop, which the thread of the caller may have already."""
    try:
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(read).result()
    except NotProven:
        raise
    except Exception as error:  # pyHanko raises errors of many kinds for damaged files
        raise NotProven(f"{problem} ({error}).") from error


def _check(data: bytes, issuer: Issuer) -> PdfSignature:
    data = signed_part(data)
    # As if nothing had followed.
    signature = find_signature(data)
    _check_coverage(data, signature)
    _check_encoding(signature)
    listed = _find_listed(signature, issuer)
    certificate = x509.load_pem_x509_certificate(listed.pem.encode())
    signed_at = signature.self_reported_timestamp
    if signed_at is None:
        raise NotProven("The signature does not say when it was made.")
    signed_at = signed_at.astimezone(UTC)
    if signed_at > certificate.not_valid_after_utc:
        raise NotProven(f"The certificate of the key had expired on {certificate.not_valid_after_utc:%Y-%m-%d}.")
    if signed_at < certificate.not_valid_before_utc:
        made_on = f"{certificate.not_valid_before_utc:%Y-%m-%d}"
        raise NotProven(f"The signature is dated {signed_at:%Y-%m-%d}, but the key was made on {made_on}.")
    listed.period.check(signed_at)
    status = validate_pdf_signature(
        signature,
        ValidationContext(
            trust_roots=list(load_certs_from_pemder_data(listed.pem.encode())), moment=signed_at, allow_fetching=False
        ),
        key_usage_settings=KeyUsageConstraints(key_usage=set()),
        skip_diff=True,
    )
    if not status.intact:
        raise NotProven("The PDF was changed after it was signed.")
    if not (status.valid and status.trusted):
        raise NotProven("The signature is wrong: it was not made with the key of its certificate.")
    name, key_since = certificate.subject.rfc4514_string(), listed.period.since or certificate.not_valid_before_utc
    stamp = status.timestamp_validity
    if stamp is None:
        return PdfSignature(name, Signing(signed_at, key_since))
    if not (stamp.intact and stamp.valid):
        raise NotProven("The time stamp of the signature is wrong.")
    stamped_at = stamp.timestamp.astimezone(UTC)
    if stamped_at < signed_at - timedelta(days=1):
        raise NotProven(
            f"The signature is dated {signed_at:%Y-%m-%d}, but was stamped on {stamped_at:%Y-%m-%d} already."
        )
    return PdfSignature(name, Signing(signed_at, key_since, stamped_at))


def _check_coverage(data: bytes, signature: EmbeddedPdfSignature) -> None:
    """All bytes but those of the signature itself are signed, and there is only zero padding beside the signature."""
    byte_range = [int(each) for each in signature.byte_range]
    if len(byte_range) != 4 or byte_range[0] != 0:
        raise NotProven("The signature does not cover the file from its start.")
    _, before, after, rest = byte_range
    if after + rest != len(data):
        raise NotProven(ADDED)
    digits = bytes(signature.pkcs7_content).hex().encode()
    # One spelling of the digits or the other, but no mixture: a changed letter is a changed byte.
    if data[before:after] not in {b"<" + digits + b">", b"<" + digits.upper() + b">"}:
        raise NotProven("The signature does not cover the whole file.")


def _check_encoding(signature: EmbeddedPdfSignature) -> None:
    """The signature is written in its only spelling: a byte that no digest covers cannot be changed unseen."""
    content = bytes(signature.pkcs7_content)
    if content[check_der(content) :].strip(b"\0"):
        raise NotProven("The signature is followed by something else.")
    signed_data = cms.ContentInfo.load(content)["content"]
    (signer,) = signed_data["signer_infos"]
    is_original = (
        (signed_data["version"].native, signer["version"].native) == ("v1", "v1")
        and signed_data["crls"].native is None
        and [each.dump() for each in signed_data["digest_algorithms"]] == [SHA_256]
        and signer["digest_algorithm"].dump() == SHA_256
        and signer["signature_algorithm"].dump() == SHA_256_WITH_RSA
    )
    if not is_original:
        raise NotProven("The signature was changed, or was made by other software than the seller's.")


def _find_listed(signature: EmbeddedPdfSignature, issuer: Issuer) -> DocumentCertificate:
    """The certificate of the signer in the issuer file. Other certificates in the signature are its chain."""
    signer = signature.signer_cert.dump()
    for listed in issuer.document_certificates:
        if x509.load_pem_x509_certificate(listed.pem.encode()).public_bytes(Encoding.DER) == signer:
            break
    else:
        name = signature.signer_cert.subject.human_friendly
        raise NotProven(
            f"The PDF was signed by {name}, with a key that the issuer file does not list. Either somebody else signed"
            " it, or your issuer file is older than the key: download it again, from the seller's own website."
        )
    remaining = [each.dump() for each in signature.other_embedded_certs]
    _check_chain(x509.load_der_x509_certificate(signer), [x509.load_der_x509_certificate(each) for each in remaining])
    return listed


def _check_chain(certificate: x509.Certificate, others: list[x509.Certificate]) -> None:
    while others:
        above = next((each for each in others if _is_issued_by(certificate, each)), None)
        if above is None:
            raise NotProven("The signature contains a certificate that does not belong to the signer's.")
        others.remove(above)
        certificate = above


def _is_issued_by(certificate: x509.Certificate, issuer: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(issuer)
    except (InvalidSignature, ValueError, TypeError):
        return False
    return True


def read_attachments(data: bytes) -> dict[str, bytes]:
    """The attached files by name, as they were signed.

    Call it after `check_pdf`: a file from elsewhere could expand without limit.
    """
    return _read("The attachments of the PDF cannot be read", lambda: _read_attachments(signed_part(data)))


def _read_attachments(data: bytes) -> dict[str, bytes]:
    found: dict[str, bytes] = {}
    names = _part(PdfFileReader(BytesIO(data)).root, "/Names")
    files = _part(names, "/EmbeddedFiles")
    for name, file in _files(files, 0) if files is not None else ():
        content = file["/EF"]["/F"].data
        if name in found or len(found) >= MAX_ATTACHMENTS or len(content) > MAX_ATTACHMENT_SIZE:
            raise NotProven("The PDF has too many or too large attachments, or two with the same name.")
        found[name] = content
    return found


def _files(node: DictionaryObject, depth: int) -> Iterator[tuple[str, DictionaryObject]]:
    """The leaves of a name tree."""
    if depth > MAX_TREE_DEPTH:
        raise NotProven("The attachments of the PDF are nested too deeply.")
    names = _part(node, "/Names") or ()
    for i in range(0, len(names), 2):
        file = names[i + 1].get_object()
        yield str(_part(file, "/UF") or file["/F"]), file
    for child in _part(node, "/Kids") or ():
        yield from _files(child.get_object(), depth + 1)


def _part(node: DictionaryObject | None, key: str) -> Any:
    """`get` would return a reference instead of the object."""
    if node is None or key not in node:
        return None
    return node[key]
