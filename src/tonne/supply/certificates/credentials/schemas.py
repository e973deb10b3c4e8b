"""The wire format of credentials."""

from typing import Annotated, Any

from msgspec import Meta

from tonne.platform.values.context import Mode
from tonne.supply.certificates.credentials.credential import Json, compose_credential
from tonne.supply.certificates.record import CertificateLine, CertificateRecord

_BASE_URL = "https://offsets.example.com"
_RECORD = CertificateRecord(
    number="7XKD-M2QH-9RTV-4WNC",
    mode=Mode.LIVE,
    order_id="ord_06gtv1alff3htg9thvlvj59t20",
    issued_at="2026-11-15T10:00:00.123Z",
    beneficiary="Acme Ltd",
    issuer="Tonne",
    total_quantity="2",
    verification_url=f"{_BASE_URL}/verify/7XKD-M2QH-9RTV-4WNC",
    lines=[
        CertificateLine(
            registry="Verra",
            project_id="VCS-1234",
            project_name="Sierra wind farm",
            country="Spain",
            project_type="Wind",
            methodology="ACM0002",
            vintage="2024",
            serial_range="9731-17-18-VCS-VCU-1-VER-KE-1-1-01012024-31122024-0",
            quantity="2",
            retired_on="2026-11-15",
            retirement_url="https://registry.example/retirements/99",
            shared=None,
        )
    ],
)
_PROOF: Json = {
    "type": "DataIntegrityProof",
    "cryptosuite": "eddsa-jcs-2022",
    "created": _RECORD.issued_at,
    "verificationMethod": "did:web:offsets.example.com#sgk_06gtv1alff3htg9thvlvj59t20",
    "proofPurpose": "assertionMethod",
    "proofValue": "z3FXQjecWufY46yg5abdVZsXqLhxhueuSoZgNSARiKBk9czhSePTFehP8c3PGfb6a22gkfUKods5D2UAUL5n2Brbx",
}
_TEXT = {"type": "string"}
_TEXTS = {"type": "array", "items": _TEXT}
_VALUES = {"type": "object", "additionalProperties": {"description": "A JSON value."}}
_OPTIONAL = {"credentialStatus", "evidence"}
_LEFT_OUT = {"credentialSchema", "relatedResource"}
_MEMBERS = {
    "@context": _TEXTS,
    "id": _TEXT,
    "type": _TEXTS,
    "issuer": {"type": "object", "properties": {"id": _TEXT, "name": _TEXT}},
    "validFrom": _TEXT,
    "credentialSubject": _VALUES,
    "credentialStatus": {"type": "array", "items": _VALUES},
    "evidence": {"type": "array", "items": _VALUES},
    "proof": _VALUES,
}
_EXAMPLE = {**compose_credential(_RECORD, [], None, _BASE_URL), "proof": _PROOF}
# A dictionary, not a struct, and no format of dates: clients that parse and write it anew would change numbers and
# dates, and with them the bytes that were signed.
CredentialOut = Annotated[
    dict[str, Any],
    Meta(
        title="Credential",
        description="A W3C verifiable credential (data model 2.0). Keep it as it is: a changed value invalidates the "
        "signature.",
        extra_json_schema={"properties": _MEMBERS, "required": sorted(_MEMBERS.keys() - _OPTIONAL)},
        # The documentation says what is left out here.
        examples=[{key: value for key, value in _EXAMPLE.items() if key not in _LEFT_OUT}],
    ),
]
