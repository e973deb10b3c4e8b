"""What the verification page says about a certificate and about a file."""

import re
from enum import StrEnum

from tonne.platform.values.context import Mode
from tonne.supply.certificates.record import CertificateState
from tonne.supply.certificates.store import CertificateDocument, StoredCertificate

_BETWEEN_DIGITS = re.compile(r"[\s:]")
_SHA256 = re.compile(r"[0-9a-f]{64}")


class CertificateVerdict(StrEnum):
    VALID = "valid"
    # Nothing was retired, so it proves nothing.
    TEST = "test"
    REPLACED = "replaced"
    WITHDRAWN = "withdrawn"
    # The file is not one that we sent out for the certificate that it names.
    ALTERED = "altered"
    UNKNOWN_NUMBER = "unknown_number"
    UNKNOWN_FILE = "unknown_file"


class FileMatch(StrEnum):
    """How a file compares with those that were sent out for a certificate."""

    ORIGINAL = "original"
    ALTERED = "altered"


def verdict_on(certificate: StoredCertificate, match: FileMatch | None) -> CertificateVerdict:
    """`match` is None if only the number is known."""
    if match is FileMatch.ALTERED:
        return CertificateVerdict.ALTERED
    if certificate.state is not CertificateState.VALID:
        return CertificateVerdict(certificate.state)
    return CertificateVerdict.TEST if certificate.record.mode is Mode.TEST else CertificateVerdict.VALID


def match_file(sha256: str, documents: list[CertificateDocument]) -> FileMatch:
    return FileMatch.ORIGINAL if any(document.sha256 == sha256 for document in documents) else FileMatch.ALTERED


def normal_sha256(text: str) -> str:
    """Normalise a hash as tools print it. Returns "" if it cannot be one."""
    digits = _BETWEEN_DIGITS.sub("", text[:200]).lower()
    return digits if _SHA256.fullmatch(digits) else ""
