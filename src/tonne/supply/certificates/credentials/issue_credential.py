"""Signs the credential of a certificate, renders the certificate, and records the PDF's hash."""

import hashlib
from datetime import datetime

import msgspec

from tonne.platform.db.database import Database
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.http.route import Response
from tonne.platform.keys.signing.keys import SignDocuments, SigningKeys
from tonne.platform.keys.signing.model import KeyPurpose
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, to_wire
from tonne.supply.certificates.credentials.credential import Json, compose_credential
from tonne.supply.certificates.credentials.did import did_of, key_address
from tonne.supply.certificates.credentials.sd_jwt import compose_claims, issue_sd_jwt
from tonne.supply.certificates.credentials.status_store import find_status_index
from tonne.supply.certificates.logo_store import find_certificate_logo
from tonne.supply.certificates.pdf import AttachedFiles, certificate_pdf
from tonne.supply.certificates.pdf_store import find_pdf_any_account, store_pdf_any_account
from tonne.supply.certificates.proofs.read_proofs import Evidence, find_evidence
from tonne.supply.certificates.record import CertificateRecord
from tonne.supply.certificates.store import record_document_any_account
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

    async def issue_sd_jwt(self, record: CertificateRecord, now: datetime) -> bytes:
        """With disclosures that the holder can leave out. Raises SigningUnavailable."""
        evidence, _ = await self._find(record)
        key = await self._keys.current(KeyPurpose.CREDENTIAL)
        claims = compose_claims(record, [] if evidence is None else evidence.issued, self._base_url, now)
        return (await in_turn(issue_sd_jwt, record, claims, key)).encode()

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
        # The key may be newer than the certificate: a signature that is older than its key would be dated back.
        signed_at = max(record.issued_at, to_wire(key.record.created_at))
        return msgspec.json.encode(sign_credential(credential, key.private_key, method, signed_at))


PDF = b"application/pdf"


class RenderCertificate:
    """Every certificate that leaves the service as a PDF is rendered here."""

    def __init__(self, database: Database, credentials: IssueCredential, signing: SignDocuments, clock: Clock) -> None:
        self._database = database
        self._credentials = credentials
        self._signing = signing
        self._clock = clock

    async def render(self, record: CertificateRecord) -> bytes:
        """The signed PDF, with its credential and proof attached. Raises SigningUnavailable.

        Its hash is stored before anybody gets the file, so that the file can always be verified. With a time stamp, the
        file itself is stored as soon as it has its proof, and is the same from then on.
        """
        stored = await self._database.run(find_pdf_any_account, record.number)
        if stored is not None:
            return stored
        logo = None
        if record.logo is not None and record.name_erased_on is None:
            logo = await self._database.run(find_certificate_logo, record.logo)
        attached = await self._credentials.attachments(record)
        drawn = await in_turn(certificate_pdf, record, logo, attached)
        pdf = await self._signing.sign(drawn, datetime.fromisoformat(record.issued_at))
        now = self._clock()
        if self._signing.has_time_stamps and attached.proof is not None:
            async with self._database.transaction() as tx:
                return await store_pdf_any_account(tx, record, pdf, now)
        await self._database.run(record_document_any_account, record.number, hashlib.sha256(pdf).digest(), now)
        return pdf

    async def render_to_send(self, record: CertificateRecord) -> bytes | None:
        """The PDF for a mail. None if it is to be stored, and its proof does not exist yet: try again in a minute.

        Raises SigningUnavailable.
        """
        if self._signing.has_time_stamps and (await self._credentials.attachments(record)).proof is None:
            return None
        return await self.render(record)

    async def answer(self, record: CertificateRecord) -> Response:
        name = f'inline; filename="certificate-{record.number}.pdf"'
        return Response(await self.render(record), media_type=PDF, headers={"content-disposition": name})
