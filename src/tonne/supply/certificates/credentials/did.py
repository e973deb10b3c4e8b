"""The identity of the operator as an issuer of credentials: a DID of the method `web`, for the host of the service."""

from collections.abc import Iterable
from typing import Any
from urllib.parse import urlsplit

from tonne.platform.keys.signing.model import KeyRecord
from tonne_verify.multibase import encode_multikey

Json = dict[str, Any]
CONTEXT = ["https://www.w3.org/ns/did/v1", "https://w3id.org/security/multikey/v1"]


def did_of(base_url: str) -> str:
    """Such as `did:web:offsets.example.com`. Its document is at `/.well-known/did.json`."""
    return f"did:web:{urlsplit(base_url).netloc.replace(':', '%3A')}"


def key_address(did: str, key_id: str) -> str:
    return f"{did}#{key_id}"


def did_document(did: str, keys: Iterable[KeyRecord]) -> Json:
    """The keys that verify credentials. Retired keys stay, for what they have signed; revoked ones do not."""
    methods = [
        {
            "id": key_address(did, key.id),
            "type": "Multikey",
            "controller": did,
            "publicKeyMultibase": encode_multikey(key.public_key),
        }
        for key in keys
        if key.revoked_from is None
    ]
    return {
        "@context": CONTEXT,
        "id": did,
        "verificationMethod": methods,
        "assertionMethod": [method["id"] for method in methods],
    }
