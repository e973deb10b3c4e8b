"""Signs the credential of a certificate."""

import msgspec

from tonne.platform.db.database import Database
from tonne.platform.keys.signing.keys import SigningKeys
from tonne.platform.keys.signing.model import KeyPurpose
from tonne.platform.settings.settings import Settings
from tonne.supply.certificates.credentials.credential import Json, compose_credential
from tonne.supply.certificates.credentials.did import did_of, key_address
from tonne.supply.certificates.credentials.status_store import find_status_index
from tonne.supply.certificates.pdf import AttachedFiles
from tonne.supply.certificates.proofs.read_proofs import Evidence, find_evidence
from tonne.supply.certificates.record import CertificateRecord
from tonne_verify.credentials import sign_credential


class IssueCredential:
    """Signing is deterministic: the same certificate, evidence and key give the same bytes."""

    def __init__(self, database: Database, keys: SigningKeys, settings: Settings) -> None:
        self._database = database
        self._keys = keys
        self._base_url = settings.base_url

    async def issue(self, record: CertificateRecord, *, with_changes: bool = True) -> bytes:
        """JSON. `with_changes`: with the evidence that the certificate was replaced or withdrawn.

        Raises SigningUnavailable.
        """
        evidence, index = await self._find(record)
        proven = [] if evidence is None else evidence.all if with_changes else evidence.issued
        return await self._sign(record, proven, index)

    async def attachments(self, record: CertificateRecord) -> AttachedFiles:
        """Only evidence that does not change, so that the PDF does not change either. Raises SigningUnavailable."""
        evidence, index = await self._find(record)
        proven = [] if evidence is None else evidence.issued
        credential = await self._sign(record, proven, index)
        return AttachedFiles(credential.decode(), proven[0]["proof"] if proven else None)

    async def _find(self, record: CertificateRecord) -> tuple[Evidence | None, int | None]:
        async with self._database.snapshot() as connection:
            evidence = await find_evidence(connection, record.mode, record.number)
            return evidence, await find_status_index(connection, record.mode, record.number)

    async def _sign(self, record: CertificateRecord, evidence: list[Json], index: int | None) -> bytes:
        key = await self._keys.current(KeyPurpose.CREDENTIAL)
        credential = compose_credential(record, evidence, index, self._base_url)
        method = key_address(did_of(self._base_url), key.id)
        return msgspec.json.encode(sign_credential(credential, key.private_key, method, record.issued_at))
