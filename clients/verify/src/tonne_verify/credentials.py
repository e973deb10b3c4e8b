"""Verifiable credentials, secured with the cryptosuite eddsa-jcs-2022: Ed25519 over canonical JSON."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from tonne_verify.canonical import canonical_json
from tonne_verify.errors import NotProven
from tonne_verify.multibase import decode_multibase, encode_multibase
from tonne_verify.times import parse_time

PROOF_TYPE = "DataIntegrityProof"
CRYPTOSUITE = "eddsa-jcs-2022"
PROOF_PURPOSE = "assertionMethod"


@dataclass(frozen=True, slots=True)
class CredentialSignature:
    """A verified signature."""

    verification_method: str
    created: datetime


def sign_credential(
    document: Mapping[str, Any], private_key: Ed25519PrivateKey, verification_method: str, created: str
) -> dict[str, Any]:
    """The document with its proof. `created` is an RFC 3339 time, `verification_method` the id of the public key."""
    proof: dict[str, Any] = {
        "type": PROOF_TYPE,
        "cryptosuite": CRYPTOSUITE,
        "created": created,
        "verificationMethod": verification_method,
        "proofPurpose": PROOF_PURPOSE,
    }
    if "@context" in document:
        proof["@context"] = document["@context"]
    unsecured = {key: value for key, value in document.items() if key != "proof"}
    signature = private_key.sign(_signed_bytes(unsecured, proof))
    return {**unsecured, "proof": {**proof, "proofValue": encode_multibase(signature)}}


def check_credential(document: Mapping[str, Any], public_keys: Mapping[str, Ed25519PublicKey]) -> CredentialSignature:
    """Raises NotProven unless one of the keys, which are found by their id, has signed the document."""
    proof = document.get("proof")
    if not isinstance(proof, dict):
        raise NotProven("The credential is not signed.")
    if (proof.get("type"), proof.get("cryptosuite")) != (PROOF_TYPE, CRYPTOSUITE):
        raise NotProven(f"The credential is signed in another way than {CRYPTOSUITE}.")
    if proof.get("proofPurpose") != PROOF_PURPOSE:
        raise NotProven(f"The signature was not made for the purpose {PROOF_PURPOSE}.")
    method = proof.get("verificationMethod")
    if not isinstance(method, str) or method not in public_keys:
        raise NotProven(f"The credential was signed with a key that is not known: {method!r}.")
    if proof.get("@context", document.get("@context")) != document.get("@context"):
        raise NotProven("The signature was made for another context than that of the credential.")
    unsecured = {key: value for key, value in document.items() if key != "proof"}
    options = {key: value for key, value in proof.items() if key != "proofValue"}
    signature = decode_multibase(str(proof.get("proofValue")))
    try:
        public_keys[method].verify(signature, _signed_bytes(unsecured, options))
    except InvalidSignature:
        raise NotProven("The signature is wrong: the credential was changed after it was signed.") from None
    return CredentialSignature(method, parse_time(proof.get("created")))


def _signed_bytes(document: Mapping[str, Any], proof: Mapping[str, Any]) -> bytes:
    return (
        hashlib.sha256(canonical_json(dict(proof))).digest() + hashlib.sha256(canonical_json(dict(document))).digest()
    )
