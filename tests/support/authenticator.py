"""An authenticator for passkeys in software: what a phone or a security key answers to the browser."""

import base64
import hashlib
import json
import secrets
from typing import Any

import cbor2
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256

USER_PRESENT, USER_VERIFIED, NEW_KEY = 0x01, 0x04, 0x40


class Authenticator:
    """One passkey. The attributes can be changed to answer wrongly."""

    def __init__(self, origin: str, domain: str) -> None:
        self.origin = origin
        self.domain = domain
        self.credential_id = secrets.token_bytes(16)
        self.sign_count = 0
        self.user_handle = ""
        self.verifies_user = True
        self._key = ec.generate_private_key(ec.SECP256R1())

    def create(self, options: dict[str, Any]) -> str:
        """The answer to `navigator.credentials.create`."""
        self.user_handle = options["user"]["id"]
        point = self._key.public_key().public_numbers()
        key = {1: 2, 3: -7, -1: 1, -2: point.x.to_bytes(32, "big"), -3: point.y.to_bytes(32, "big")}
        credential = bytes(16) + len(self.credential_id).to_bytes(2, "big") + self.credential_id + cbor2.dumps(key)
        attestation = {"fmt": "none", "attStmt": {}, "authData": self._data(NEW_KEY) + credential}
        client_data = self._client_data("webauthn.create", options["challenge"])
        return self._answer(clientDataJSON=encode(client_data), attestationObject=encode(cbor2.dumps(attestation)))

    def get(self, options: dict[str, Any]) -> str:
        """The answer to `navigator.credentials.get`."""
        self.sign_count += 1
        data, client_data = self._data(), self._client_data("webauthn.get", options["challenge"])
        signature = self._key.sign(data + hashlib.sha256(client_data).digest(), ec.ECDSA(SHA256()))
        return self._answer(
            clientDataJSON=encode(client_data),
            authenticatorData=encode(data),
            signature=encode(signature),
            userHandle=self.user_handle,
        )

    def _data(self, flags: int = 0) -> bytes:
        flags |= USER_PRESENT | (USER_VERIFIED if self.verifies_user else 0)
        domain = hashlib.sha256(self.domain.encode()).digest()
        return domain + bytes([flags]) + self.sign_count.to_bytes(4, "big")

    def _client_data(self, kind: str, challenge: str) -> bytes:
        return json.dumps({"type": kind, "challenge": challenge, "origin": self.origin}).encode()

    def _answer(self, **response: str) -> str:
        id_ = encode(self.credential_id)
        return json.dumps({"id": id_, "rawId": id_, "type": "public-key", "response": response})


def encode(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()
