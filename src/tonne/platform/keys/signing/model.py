"""The keys of the operator: what each signs, and what is public about it."""

from datetime import datetime
from enum import StrEnum

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from msgspec import Struct


class KeyPurpose(StrEnum):
    """PDFs (RSA with an X.509 certificate), verifiable credentials and checkpoints of the log (both Ed25519)."""

    DOCUMENT = "document"
    CREDENTIAL = "credential"
    LOG = "log"


class KeyRecord(Struct, frozen=True, kw_only=True):
    """A key without its private part.

    `public` is PEM: the certificate of a key for documents, else the public key. A retired key signs nothing from
    `retired_at` on. Of a leaked key, signatures that are dated `revoked_from` or later are not valid.
    """

    id: str
    purpose: KeyPurpose
    created_at: datetime
    retired_at: datetime | None
    revoked_from: datetime | None
    public: str

    @property
    def public_key(self) -> Ed25519PublicKey:
        """Not for documents, whose keys have a certificate."""
        key = load_pem_public_key(self.public.encode())
        if not isinstance(key, Ed25519PublicKey):
            raise TypeError(f"{self.id} is not an Ed25519 key")
        return key


class SigningKey(Struct, frozen=True):
    """The key that signs credentials or checkpoints."""

    record: KeyRecord
    private_key: Ed25519PrivateKey

    @property
    def id(self) -> str:
        return self.record.id

    @property
    def public(self) -> str:
        return self.record.public
