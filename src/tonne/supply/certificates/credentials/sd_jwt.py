"""Certificates as SD-JWT VC: their holder shows the retirement, and withholds for whom it was.

The name, and what leads to it, are in disclosures that the holder leaves out. What remains is proven by the entries of
the retirements in the log, which name nobody.
"""

import base64
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

import msgspec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from tonne.platform.keys.signing.model import KeyRecord, SigningKey
from tonne.supply.certificates.record import CertificateLine, CertificateRecord
from tonne_verify.openings import StatementKind

Json = dict[str, Any]
MEDIA_TYPE = "application/dc+sd-jwt"
TOKEN_TYPE = "dc+sd-jwt"  # noqa: S105 - not a secret
# The type as in the JSON-LD context of credentials.
VCT = "urn:uuid:0b6f2f0e-6f0a-5a4e-9d2c-8b1f4f1c7a52#CarbonRetirementCertificate"
# It cannot say that the certificate was withdrawn later, so that it has to be fetched again.
VALID_FOR = timedelta(days=90)
_WITHHELD = ("beneficiary", "number", "order_id", "verification_url")
_OF_LINE = (
    *("registry", "project_id", "project_name", "country", "project_type", "methodology", "vintage"),
    *("serial_range", "quantity", "retired_on", "retirement_url", "facts"),
)


def compose_claims(record: CertificateRecord, evidence: Iterable[Json], base_url: str, now: datetime) -> Json:
    """What the holder cannot withhold, besides `_WITHHELD`. Dated `now`: the time of issue leads to the certificate."""
    return {
        "iss": base_url,
        "iat": int(now.timestamp()),
        "exp": int((now + VALID_FOR).timestamp()),
        "vct": VCT,
        "mode": record.mode,
        "issuer_name": record.issuer,
        "total_quantity": record.total_quantity,
        "lines": [_line(each) for each in record.lines],
        "evidence": [
            {name: each[name] for name in ("type", "statement", "salt", "proof")}
            for each in evidence
            if each["statement"]["kind"] == StatementKind.RETIREMENT
        ],
    }


def _line(line: CertificateLine) -> Json:
    """Not `registry_name`, `in_advance.assigned_to`: they are names."""
    shown = msgspec.to_builtins(line)
    return {name: shown[name] for name in _OF_LINE if shown[name] is not None}


def issue_sd_jwt(record: CertificateRecord, claims: Json, key: SigningKey) -> str:
    """The token with all disclosures. CPU-bound."""
    # Both take long to import, and few processes need them.
    from jwcrypto.jwk import JWK  # noqa: PLC0415
    from sd_jwt.common import SDObj  # noqa: PLC0415
    from sd_jwt.issuer import SDJWTIssuer  # noqa: PLC0415

    withheld = {SDObj(name): getattr(record, name) for name in _WITHHELD}
    headers = {"typ": TOKEN_TYPE, "kid": key.id}
    own = JWK.from_pyca(key.private_key)
    return str(SDJWTIssuer({**claims, **withheld}, own, None, "EdDSA", extra_header_parameters=headers).sd_jwt_issuance)


def issuer_metadata(base_url: str, keys: Iterable[KeyRecord]) -> Json:
    """`/.well-known/jwt-vc-issuer`. Retired keys stay, for what they have signed; revoked ones do not."""
    return {"issuer": base_url, "jwks": {"keys": [_jwk(key) for key in keys if key.revoked_from is None]}}


def _jwk(key: KeyRecord) -> Json:
    point = base64.urlsafe_b64encode(key.public_key.public_bytes(Encoding.Raw, PublicFormat.Raw))
    x = point.decode().rstrip("=")
    return {"kty": "OKP", "crv": "Ed25519", "x": x, "kid": key.id, "use": "sig", "alg": "EdDSA"}
