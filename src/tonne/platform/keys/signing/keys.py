"""The signing keys of a process: created at first use, opened once, and looked up again every few seconds.

A key for documents gets a self-signed certificate, which the operator may replace by their own.
"""

import asyncio
from collections import defaultdict
from datetime import datetime, timedelta

import structlog
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID
from msgspec import Struct

from tonne.platform.db.connections import Connections
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.keys.secret_box import SecretBox, SecretUnreadable
from tonne.platform.keys.signing import key_store
from tonne.platform.keys.signing.document_key import (
    CertificateChain,
    DocumentKey,
    KeyUnusable,
    document_key,
    sign_in_memory,
)
from tonne.platform.keys.signing.errors import SigningKeyNotFound, SigningUnavailable
from tonne.platform.keys.signing.key_store import StoredKey
from tonne.platform.keys.signing.model import KeyPurpose, KeyRecord, SigningKey
from tonne.platform.keys.signing.operator_key import has_outside_key, load_operator_key
from tonne.platform.process.expiring_cache import ExpiringCache
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, Clock, job_actor, new_id, utc_now

# Long enough for signatures that are checked after decades.
RSA_BITS = 3072
CERTIFICATE_VALIDITY = timedelta(days=20 * 365)
# The maximum of X.520.
_MAX_COMMON_NAME = 64


class NewKey(Struct, frozen=True):
    """Both in PEM. `public` is a certificate or a public key."""

    private: str
    public: str


def make_key(purpose: KeyPurpose, seller: str, now: datetime) -> NewKey:
    """CPU-bound for documents: call it through `asyncio.to_thread`."""
    if purpose is KeyPurpose.DOCUMENT:
        return _make_document_key(seller, now)
    key = Ed25519PrivateKey.generate()
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return NewKey(_private_pem(key), public.decode())


def _make_document_key(seller: str, now: datetime) -> NewKey:
    key = rsa.generate_private_key(public_exponent=65537, key_size=RSA_BITS)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, seller[:_MAX_COMMON_NAME])])
    usage = x509.KeyUsage(
        digital_signature=True,
        # Required by readers for signatures on documents: the signer answers for the content.
        content_commitment=True,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=False,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )
    # Certificates know only whole seconds.
    start = now.replace(microsecond=0)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + CERTIFICATE_VALIDITY)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return NewKey(_private_pem(key), certificate.public_bytes(Encoding.PEM).decode())


def _private_pem(key: Ed25519PrivateKey | rsa.RSAPrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


_log = structlog.get_logger()
ACTOR = job_actor("signing")
# A rotation in another process is noticed after this time.
REFRESH_S = 10.0


class SigningKeys:
    """Every few seconds, a call takes a connection of its own from `database`.

    Without `box`, only a document key outside of the database can be used. Calls for other keys raise
    SigningUnavailable.
    """

    def __init__(self, database: Connections, box: SecretBox | None, settings: Settings, clock: Clock) -> None:
        self._database = database
        self._box = box
        self._settings = settings
        self._clock = clock
        self._current: ExpiringCache[KeyPurpose, SigningKey] = ExpiringCache(REFRESH_S)
        self._document: ExpiringCache[KeyPurpose, DocumentKey] = ExpiringCache(REFRESH_S)
        # The keys that were opened last: opening them again would take time.
        self._opened: dict[KeyPurpose, SigningKey] = {}
        self._opened_document: DocumentKey | None = None
        # Concurrent requests create and open a key once.
        self._locks: defaultdict[KeyPurpose, asyncio.Lock] = defaultdict(asyncio.Lock)

    async def current(self, purpose: KeyPurpose) -> SigningKey:
        """The key that signs credentials or checkpoints. Raises SigningUnavailable."""
        found = self._current.get(purpose)
        if found is not None:
            return found
        async with self._locks[purpose]:
            stored = await self._find_or_make(purpose)
            key = self._opened.get(purpose)
            if key is None or key.record != stored.record:
                key = self._opened[purpose] = self._open_signing_key(stored)
            self._current.put(purpose, key)
            return key

    async def document(self) -> DocumentKey:
        """The key that signs PDFs. Raises SigningUnavailable."""
        found = self._document.get(KeyPurpose.DOCUMENT)
        if found is not None:
            return found
        async with self._locks[KeyPurpose.DOCUMENT]:
            try:
                is_outside = has_outside_key(self._settings)
                key = await (self._outside_document_key() if is_outside else self._own_document_key())
            except KeyUnusable as error:
                _log.error("document_key_unusable", reason=str(error))
                raise SigningUnavailable from error
            self._document.put(KeyPurpose.DOCUMENT, key)
            self._opened_document = key
            return key

    def document_expiry(self) -> datetime | None:
        """When the certificate expires that this process signs PDFs with; None before the first one."""
        return None if self._opened_document is None else self._opened_document.certificate.own.not_valid_after_utc

    async def all(self, purpose: KeyPurpose) -> list[KeyRecord]:
        """All keys, the oldest first. Creates the first one. Raises SigningUnavailable."""
        if purpose is KeyPurpose.DOCUMENT:
            await self.document()
        else:
            await self.current(purpose)
        async with self._database.connection() as connection:
            return await key_store.list_signing_keys(connection, purpose)

    async def _outside_document_key(self) -> DocumentKey:
        """The operator's key, see `load_operator_key`. The first call of a process makes it the current one."""
        opened = self._opened_document
        if opened is not None:
            async with self._database.connection() as connection:
                record = await key_store.find_key_by_public(connection, opened.record.public)
            if record is None or (record.retired_at is not None and record.retired_at <= self._clock()):
                raise KeyUnusable(
                    f"The key {opened.record.id} was retired. Set the current key in the settings, and restart Tonne."
                )
            return opened
        found = await asyncio.to_thread(load_operator_key, self._settings)
        if found is None:
            raise KeyUnusable("The settings name no key.")
        async with self._database.transaction() as tx:
            record = await use_outside_key(tx, found.certificate.pem, by=ACTOR.at(self._clock()))
        return await asyncio.to_thread(document_key, record, found.certificate, found.sign_raw)

    async def _own_document_key(self) -> DocumentKey:
        stored = await self._find_or_make(KeyPurpose.DOCUMENT)
        if self._opened_document is not None and self._opened_document.record == stored.record:
            return self._opened_document
        if stored.sealed is None:
            raise KeyUnusable(
                f"The current key {stored.record.id} is not in the database, and the settings do not name it. Set "
                "TONNE_DOCUMENT_KEY_FILE or TONNE_DOCUMENT_PKCS11_MODULE, or run `tonne signing-keys rotate document` "
                "to create a key in the database."
            )
        private_key = self._open(stored)
        if not isinstance(private_key, rsa.RSAPrivateKey):
            raise KeyUnusable(f"The key {stored.record.id} is not an RSA key.")
        chain = CertificateChain(x509.load_pem_x509_certificate(stored.record.public.encode()))
        return await asyncio.to_thread(document_key, stored.record, chain, sign_in_memory(private_key))

    def _require_box(self) -> SecretBox:
        if self._box is None:
            raise SigningUnavailable
        return self._box

    async def _find_or_make(self, purpose: KeyPurpose) -> StoredKey:
        async with self._database.connection() as connection:
            stored = await key_store.find_current_key(connection, purpose)
        return stored or await self._make(purpose)

    async def _make(self, purpose: KeyPurpose) -> StoredKey:
        now = self._clock()
        made = await asyncio.to_thread(make_key, purpose, self._settings.seller_name, now)
        record = new_record(purpose, made.public, now)
        sealed = self._require_box().seal(made.private, record.id)
        async with self._database.transaction() as tx:
            if await key_store.insert_signing_key(tx, record, sealed):
                await audit.record(
                    tx, None, "signing_key.created", by=ACTOR.at(now), subject_id=record.id, purpose=purpose
                )
                _log.warning("signing_key_created", purpose=purpose, key_id=record.id)
                return StoredKey(record, sealed)
        async with self._database.connection() as connection:
            stored = await key_store.find_current_key(connection, purpose)
        if stored is None:
            # Another process has created a key and retired it since.
            raise SigningUnavailable
        return stored

    def _open_signing_key(self, stored: StoredKey) -> SigningKey:
        private_key = self._open(stored)
        if not isinstance(private_key, Ed25519PrivateKey):
            raise TypeError(f"{stored.record.id} is not an Ed25519 key")
        return SigningKey(stored.record, private_key)

    def _open(self, stored: StoredKey) -> PrivateKeyTypes:
        record = stored.record
        try:
            pem = self._require_box().open(stored.sealed or b"", record.id)
            return load_pem_private_key(pem.encode(), None)
        except SecretUnreadable as error:
            _log.error("signing_key_unreadable", key_id=record.id, purpose=record.purpose, reason=str(error))
            raise SigningUnavailable from error


# Other processes notice that a key was replaced a few seconds later. What they sign until then is valid.
NOTICED_AFTER = timedelta(minutes=1)
# Processes with the previous settings use the previous key until they are restarted.
RESTARTED_AFTER = timedelta(hours=1)


def new_record(purpose: KeyPurpose, public: str, now: datetime) -> KeyRecord:
    return KeyRecord(
        id=new_id("sgk"), purpose=purpose, created_at=now, retired_at=None, revoked_from=None, public=public
    )


async def use_outside_key(tx: Connection, public: str, *, by: By) -> KeyRecord:
    """Make a key for documents that is not in the database the current one. Raises KeyUnusable if it was revoked.

    `public` is its certificate. A key that was used before becomes the current one again.
    """
    purpose = KeyPurpose.DOCUMENT
    await key_store.lock_purpose(tx, purpose)
    known = await key_store.find_key_by_public(tx, public)
    if known is not None and known.revoked_from is not None:
        raise KeyUnusable(f"The key {known.id} was revoked. Set another key and certificate.")
    if known is not None and known.retired_at is None:
        return known
    replaced = await key_store.retire_current_key(tx, purpose, by.at + RESTARTED_AFTER)
    record = known or new_record(purpose, public, by.at)
    if known is None:
        await key_store.insert_signing_key(tx, record, None)
    else:
        await key_store.reinstate_key(tx, known.id)
    await audit.record(tx, None, "signing_key.set", by=by, subject_id=record.id, purpose=purpose, replaced=replaced)
    return record


async def rotate_key(
    tx: Connection, purpose: KeyPurpose, box: SecretBox, seller: str, *, by: By
) -> tuple[KeyRecord, str | None]:
    """Create a key in the database and retire the current one. Returns the new key and the id of the old one."""
    made = make_key(purpose, seller, by.at)
    await key_store.lock_purpose(tx, purpose)
    replaced = await key_store.retire_current_key(tx, purpose, by.at + NOTICED_AFTER)
    record = new_record(purpose, made.public, by.at)
    await key_store.insert_signing_key(tx, record, box.seal(made.private, record.id))
    await audit.record(
        tx,
        None,
        "signing_key.rotated",
        by=by,
        subject_id=record.id,
        purpose=purpose,
        replaced=replaced,
    )
    return record, replaced


async def retire_key(tx: Connection, key_id: str, *, by: By) -> KeyRecord:
    """The next signature creates a new key. Raises SigningKeyNotFound."""
    record = await _lock(tx, key_id)
    if record.retired_at is None:
        await key_store.retire_current_key(tx, record.purpose, by.at + NOTICED_AFTER)
        await audit.record(tx, None, "signing_key.retired", by=by, subject_id=key_id, purpose=record.purpose)
    return record


async def revoke_key(tx: Connection, key_id: str, from_: datetime, *, by: By) -> KeyRecord:
    """It leaked: signatures dated `from_` or later no longer count. Raises SigningKeyNotFound."""
    record = await _lock(tx, key_id)
    await key_store.revoke_signing_key(tx, key_id, from_, by.at)
    await audit.record(
        tx,
        None,
        "signing_key.revoked",
        by=by,
        subject_id=key_id,
        purpose=record.purpose,
        revoked_from=from_.isoformat(),
    )
    return record


async def _lock(tx: Connection, key_id: str) -> KeyRecord:
    record = await key_store.find_signing_key(tx, key_id)
    if record is None:
        raise SigningKeyNotFound
    await key_store.lock_purpose(tx, record.purpose)
    return await key_store.find_signing_key(tx, key_id) or record


class SignDocuments:
    def __init__(self, keys: SigningKeys, time_stamp_url: str = "") -> None:
        self._keys = keys
        self._time_stamp_url = time_stamp_url

    async def sign(self, pdf: bytes, issued_at: datetime) -> bytes:
        """The signed file. The same file, time and key give the same bytes, except with time stamps.

        With a time-stamp authority it is time-stamped and has its validation data. Raises SigningUnavailable.
        """
        key = await self._keys.document()
        try:
            return await asyncio.to_thread(self._sign, pdf, key, issued_at)
        except KeyUnusable as error:
            _log.error("document_not_signed", key_id=key.record.id, reason=str(error))
            raise SigningUnavailable from error

    @property
    def has_time_stamps(self) -> bool:
        """Then each signature of a file gives other bytes."""
        return bool(self._time_stamp_url)

    async def renew(self, pdf: bytes) -> bytes:
        """The signed file with a time stamp of all of it. Raises KeyUnusable."""
        return await asyncio.to_thread(self._renew, pdf)

    def _sign(self, pdf: bytes, key: DocumentKey, issued_at: datetime) -> bytes:
        # pyHanko takes a quarter of a second to import, which a process that signs nothing saves.
        from tonne.platform.keys.signing.sign_pdf import sign_pdf  # noqa: PLC0415

        if not self.has_time_stamps:
            return sign_pdf(pdf, key, issued_at)
        from tonne.platform.keys.signing.long_term import add_validation_data  # noqa: PLC0415
        from tonne.platform.keys.signing.time_stamps import TimeStampServer  # noqa: PLC0415

        # A signature with the date of an older document would be dated back.
        signed_at = max(issued_at, utc_now())
        return add_validation_data(sign_pdf(pdf, key, signed_at, TimeStampServer(self._time_stamp_url)))

    def _renew(self, pdf: bytes) -> bytes:
        from tonne.platform.keys.signing.long_term import add_document_time_stamp  # noqa: PLC0415
        from tonne.platform.keys.signing.time_stamps import TimeStampServer  # noqa: PLC0415

        return add_document_time_stamp(pdf, TimeStampServer(self._time_stamp_url).of_digest)
