"""Certificates as W3C verifiable credentials (Verifiable Credentials Data Model 2.0). No I/O."""

from collections.abc import Sequence
from enum import IntEnum
from typing import Any

import msgspec

from tonne.platform.values.context import Mode
from tonne.supply.certificates.credentials.did import did_of
from tonne.supply.certificates.record import CertificateRecord, CertificateState

Json = dict[str, Any]
# The second one allows the terms of `credentialSubject` and `evidence`, which no vocabulary defines.
CONTEXT = ["https://www.w3.org/ns/credentials/v2", "https://www.w3.org/ns/credentials/undefined-terms/v2"]
CREDENTIAL_TYPE = "CarbonRetirementCertificate"
# Entries of a status list. The standard wants at least 131,072 bits.
LIST_LENGTH = 131_072
STATUS_SIZE = 2
# The credential has them elsewhere, as `validFrom`, `issuer` and `id`; the logo is part of the PDF only.
_ELSEWHERE = ("issued_at", "issuer", "verification_url", "logo")


class StatusValue(IntEnum):
    """What a status list says about a certificate."""

    VALID = 0
    REPLACED = 1
    WITHDRAWN = 2


STATUS_VALUES = {
    CertificateState.VALID: StatusValue.VALID,
    CertificateState.REPLACED: StatusValue.REPLACED,
    CertificateState.WITHDRAWN: StatusValue.WITHDRAWN,
}
# The standard wants a message for each value of two bits.
_MESSAGES = [
    *({"status": f"{value:#x}", "message": str(state)} for state, value in STATUS_VALUES.items()),
    {"status": "0x3", "message": "not used"},
]


def compose_credential(
    record: CertificateRecord, evidence: Sequence[Json], status_index: int | None, base_url: str
) -> Json:
    """Without a signature. `status_index` is the id of the statement that the certificate was issued."""
    subject = msgspec.to_builtins(record)
    for name in _ELSEWHERE:
        del subject[name]
    credential: Json = {
        "@context": CONTEXT,
        "id": record.verification_url,
        "type": ["VerifiableCredential", CREDENTIAL_TYPE],
        "issuer": {"id": did_of(base_url), "name": record.issuer},
        "validFrom": record.issued_at,
        "credentialSubject": subject,
    }
    if status_index is not None:
        credential["credentialStatus"] = _status_entry(record.mode, status_index, base_url)
    if evidence:
        credential["evidence"] = list(evidence)
    return credential


def status_list_url(base_url: str, mode: Mode, number: int) -> str:
    return f"{base_url}/credentials/status/{mode}-{number}"


def _status_entry(mode: Mode, status_index: int, base_url: str) -> Json:
    number, position = divmod(status_index, LIST_LENGTH)
    url = status_list_url(base_url, mode, number)
    return {
        "id": f"{url}#{position}",
        "type": "BitstringStatusListEntry",
        "statusPurpose": "message",
        "statusListIndex": str(position),
        "statusListCredential": url,
        "statusSize": STATUS_SIZE,
        "statusMessage": _MESSAGES,
    }
