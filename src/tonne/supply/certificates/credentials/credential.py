"""Certificates as W3C verifiable credentials (Verifiable Credentials Data Model 2.0). No I/O."""

from collections.abc import Sequence
from enum import IntEnum, StrEnum
from typing import Any

import msgspec

from tonne.platform.values.context import Mode
from tonne.supply.certificates.credentials.did import did_of
from tonne.supply.certificates.record import CertificateRecord, CertificateState
from tonne_verify.vocabulary import CONTEXT_FILE, CREDENTIALS_V2, SCHEMA_FILE, related_resource

Json = dict[str, Any]
CREDENTIAL_TYPE = "CarbonRetirementCertificate"
# Entries of a status list. The standard wants at least 131,072 bits.
LIST_LENGTH = 131_072
# The credential has them elsewhere, as `validFrom`, `issuer` and `id`; the logo is part of the PDF only.
_ELSEWHERE = ("issued_at", "issuer", "verification_url", "logo")


class StatusPurpose(StrEnum):
    """The first one says what became of a certificate; the second, which common libraries know, that it is void."""

    MESSAGE = "message"
    REVOCATION = "revocation"

    @property
    def size(self) -> int:
        """Bits of each certificate."""
        return 2 if self is StatusPurpose.MESSAGE else 1


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
    context, schema = (vocabulary_url(base_url, name) for name in (CONTEXT_FILE, SCHEMA_FILE))
    credential: Json = {
        "@context": [CREDENTIALS_V2, context],
        "id": record.verification_url,
        "type": ["VerifiableCredential", CREDENTIAL_TYPE],
        "issuer": {"id": did_of(base_url), "name": record.issuer},
        "validFrom": record.issued_at,
        "credentialSubject": subject,
        "credentialSchema": {"id": schema, "type": "JsonSchema"},
        "relatedResource": [related_resource(CONTEXT_FILE, context), related_resource(SCHEMA_FILE, schema)],
    }
    if status_index is not None:
        credential["credentialStatus"] = [
            _status_entry(purpose, record.mode, status_index, base_url) for purpose in StatusPurpose
        ]
    if evidence:
        credential["evidence"] = list(evidence)
    return credential


def vocabulary_url(base_url: str, name: str) -> str:
    return f"{base_url}/credentials/vocabulary/{name}"


def status_list_url(base_url: str, purpose: StatusPurpose, mode: Mode, number: int) -> str:
    return f"{base_url}/credentials/status/{purpose}-{mode}-{number}"


def _status_entry(purpose: StatusPurpose, mode: Mode, status_index: int, base_url: str) -> Json:
    number, position = divmod(status_index, LIST_LENGTH)
    url = status_list_url(base_url, purpose, mode, number)
    entry = {
        "id": f"{url}#{position}",
        "type": "BitstringStatusListEntry",
        "statusPurpose": purpose,
        "statusListIndex": str(position),
        "statusListCredential": url,
    }
    if purpose is StatusPurpose.REVOCATION:
        return entry
    return {**entry, "statusSize": purpose.size, "statusMessage": _MESSAGES}
