"""The keys that sign checkpoints. A key is named like the origin of the log that it signs for."""

from tonne.platform.keys.signing.keys import SigningKeys
from tonne.platform.keys.signing.model import KeyPurpose, KeyRecord
from tonne_verify.notes import NoteKey, SignatureType, VerifierKey


class LogKeys:
    """Do not call it while a transaction is open: the keys are read on a connection of their own."""

    def __init__(self, keys: SigningKeys) -> None:
        self._keys = keys

    async def note_key(self, origin: str) -> NoteKey:
        """The key that signs now."""
        return NoteKey(origin, (await self._keys.current(KeyPurpose.LOG)).private_key)

    async def verifier_keys(self, origin: str) -> list[VerifierKey]:
        """All keys that have signed for this log, also retired and revoked ones."""
        return [_verifier_key(origin, record) for record in await self._keys.all(KeyPurpose.LOG)]

    async def trusted_keys(self, origin: str) -> list[VerifierKey]:
        """Without those that leaked: a checkpoint has no date that would show whether it is older than the leak."""
        records = await self._keys.all(KeyPurpose.LOG)
        return [_verifier_key(origin, record) for record in records if record.revoked_from is None]


def _verifier_key(origin: str, record: KeyRecord) -> VerifierKey:
    return VerifierKey(origin, SignatureType.ED25519, record.public_key.public_bytes_raw())
