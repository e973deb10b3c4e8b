"""The signature object (CMS) of a PDF. All of it except the digest and the signature is the same for each document.

pyHanko builds it once per key. Building it for each document takes longer than the signature itself.
"""

import asyncio
import functools
import hashlib
from collections.abc import Callable, Sequence

from asn1crypto import algos, cms
from asn1crypto import x509 as asn1_x509
from pyhanko.sign.signers.pdf_cms import ExternalSigner
from pyhanko_certvalidator.registry import SimpleCertificateStore

DIGEST = "sha256"
_DIGEST_PLACE = hashlib.sha256(b"place of the digest").digest()
# The tag of SET OF. Inside the object the attributes have another tag, but the signature is made with this one.
_SET_TAG = b"\x31"


class CmsTemplate:
    """`sign_raw` signs bytes with RSA PKCS #1 v1.5 and SHA-256: equal bytes give an equal signature."""

    def __init__(
        self,
        certificate: asn1_x509.Certificate,
        chain: Sequence[asn1_x509.Certificate],
        sign_raw: Callable[[bytes], bytes],
    ) -> None:
        self._sign_raw = sign_raw
        self._signature_place = bytes(certificate.public_key.byte_size - 1) + b"\xa5"
        certificates = (certificate.dump(), *(each.dump() for each in chain))
        self._object, self._attributes = _build_object(self._signature_place, *certificates)
        for place in (self._attributes[1:], _DIGEST_PLACE, self._signature_place):
            if self._object.count(place) != 1:
                raise ValueError("the signature object does not have the expected form")
        if not self._attributes.startswith(_SET_TAG):
            raise ValueError("the signed attributes do not have the expected form")

    @property
    def size(self) -> int:
        return len(self._object)

    def sign(self, digest: bytes) -> bytes:
        """The encoded object. CPU-bound, or waits for a hardware module."""
        signature = self._sign_raw(self._attributes.replace(_DIGEST_PLACE, digest))
        if len(signature) != len(self._signature_place):
            raise ValueError(f"the signature has {len(signature)} bytes instead of {len(self._signature_place)}")
        return bytes(self._object).replace(_DIGEST_PLACE, digest).replace(self._signature_place, signature)


@functools.lru_cache(8)
def _build_object(signature: bytes, own: bytes, *chain: bytes) -> tuple[bytes, bytes]:
    """The signature object with this signature, and its signed attributes. Takes 20 ms of CPU time."""
    registry = SimpleCertificateStore()  # type: ignore[no-untyped-call]
    registry.register_multiple([asn1_x509.Certificate.load(each) for each in chain])
    algorithm = algos.SignedDigestAlgorithm({"algorithm": "sha256_rsa"})
    signer = ExternalSigner(asn1_x509.Certificate.load(own), registry, signature, algorithm)
    built = asyncio.run(signer.async_sign(_DIGEST_PLACE, DIGEST, use_pades=True))
    # The encoding sorts the attributes by their types, so another digest does not change their order.
    return built.dump(), built["content"]["signer_infos"][0]["signed_attrs"].untag().dump()


def with_time_stamp(signed: bytes, token: cms.ContentInfo) -> bytes:
    """Add a time stamp (RFC 3161) of the signature."""
    parsed = cms.ContentInfo.load(signed)
    info = parsed["content"]["signer_infos"][0]
    stamp = cms.CMSAttribute({"type": "signature_time_stamp_token", "values": [token]})
    info["unsigned_attrs"] = cms.CMSAttributes([stamp])
    return bytes(parsed.dump(force=True))
