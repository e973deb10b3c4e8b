"""Keys of the operator: changed by the settings, retired, revoked, and errors that say what to do."""

import asyncio
from pathlib import Path

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ed25519
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)

from tests.platform.keys.signing.test_keys import keys_of
from tests.platform.keys.signing.validator import is_accepted
from tests.support.certificates import RECORD
from tests.support.clock import START
from tests.support.command import output_of, refusal_of
from tests.support.document_key import write_document_key
from tonne.platform.db.database import Database
from tonne.platform.keys.signing.document_key import KeyUnusable
from tonne.platform.keys.signing.errors import SigningUnavailable
from tonne.platform.keys.signing.keys import SignDocuments, SigningKeys
from tonne.platform.keys.signing.model import KeyPurpose
from tonne.platform.keys.signing.operator_key import load_operator_key
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import Settings, SettingsError
from tonne.supply.certificates.pdf import certificate_pdf


async def test_a_new_key_in_the_settings_replaces_the_old_one_whose_signatures_stay_valid(
    db: Database, settings: Settings, tmp_path: Path
) -> None:
    drawn = certificate_pdf(RECORD)
    old, new = keys_of(db, settings), keys_of(db, msgspec.structs.replace(settings, **write_document_key(tmp_path)))
    signed = {keys: await SignDocuments(keys).sign(drawn, START) for keys in (old, new)}
    first, second = await new.all(KeyPurpose.DOCUMENT)
    assert first.retired_at is not None
    assert second.retired_at is None
    for keys, record, other in ((old, first, second), (new, second, first)):
        assert await asyncio.to_thread(is_accepted, signed[keys], record.public)
        assert not await asyncio.to_thread(is_accepted, signed[keys], other.public)
    # Without settings nothing is signed with a key that clients do not expect.
    none = msgspec.structs.replace(settings, document_key_file="", document_certificate_file="")
    with pytest.raises(SigningUnavailable):
        await keys_of(db, none).document()
    database = {"database_url": db._url, "secret_key": settings.secret_key}
    output_of("signing-keys", "revoke", second.id, "--from", "1h", **database)
    third_folder = tmp_path / "third"
    third_folder.mkdir()
    again = keys_of(db, msgspec.structs.replace(settings, **write_document_key(third_folder)))
    assert (await again.document()).record.id not in {first.id, second.id}
    with pytest.raises(SigningUnavailable):
        await SigningKeys(db, None, new._settings, lambda: START).document()


async def test_rotated_keys_stay_listed_and_a_revoked_one_says_from_when(db: Database, settings: Settings) -> None:
    old = await keys_of(db, settings).current(KeyPurpose.LOG)
    database = {"database_url": db._url, "secret_key": settings.secret_key}
    said = output_of("signing-keys", "rotate", "log", **database)
    assert f"Key {old.id} is retired." in said
    new = await keys_of(db, settings).current(KeyPurpose.LOG)
    assert new.id in said
    output_of("signing-keys", "revoke", new.id, "--from", "2026-01-01T00:00:00Z", **database)
    third = await keys_of(db, settings).current(KeyPurpose.LOG)
    listed = await keys_of(db, settings).all(KeyPurpose.LOG)
    assert {key.id for key in listed} == {old.id, new.id, third.id}
    [revoked] = [key for key in listed if key.revoked_from is not None]
    assert revoked.id == new.id
    listed[[key.id for key in listed].index(old.id)].public_key.verify(old.private_key.sign(b"text"), b"text")
    async with db.connection() as connection:
        sealed = "SELECT count(*) FROM signing_keys WHERE private_box IS NOT NULL"
        assert await connection.fetchval(sealed) == 1, "the private parts of retired keys are destroyed"
    assert "no such key" in refusal_of("signing-keys", "retire", "sgk_unknown", **database)
    assert "change TONNE_DOCUMENT_KEY_FILE" in refusal_of("signing-keys", "rotate", "document", **database)


def test_a_pkcs12_file_and_an_encrypted_pem_file_sign_like_the_plain_one(tmp_path: Path) -> None:
    plain = write_document_key(tmp_path)
    key = load_pem_private_key(Path(plain["document_key_file"]).read_bytes(), None)
    certificate = x509.load_pem_x509_certificate(Path(plain["document_certificate_file"]).read_bytes())
    locked = BestAvailableEncryption(b"secret")
    bundle, encrypted = tmp_path / "key.p12", tmp_path / "encrypted.pem"
    bundle.write_bytes(pkcs12.serialize_key_and_certificates(b"key", key, certificate, None, locked))  # type: ignore[arg-type]
    encrypted.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, locked))
    signatures = set()
    for changes in (
        plain,
        {"document_key_file": str(bundle), "document_key_password": "secret"},
        {**plain, "document_key_file": str(encrypted), "document_key_password": "secret"},
    ):
        loaded = load_operator_key(msgspec.structs.replace(Settings(), **changes))
        assert loaded is not None
        signatures.add(loaded.sign_raw(b"text"))
    assert len(signatures) == 1


def test_each_mistake_is_explained(tmp_path: Path) -> None:
    plain, other = write_document_key(tmp_path), tmp_path / "other"
    other.mkdir()
    foreign = write_document_key(other)["document_certificate_file"]
    wrong = tmp_path / "ed25519.pem"
    private = ed25519.Ed25519PrivateKey.generate()
    wrong.write_bytes(private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    empty = tmp_path / "empty"
    empty.write_bytes(b"")
    for changes, sentence in (
        ({**plain, "document_certificate_file": foreign}, "belongs to another key"),
        ({**plain, "document_key_file": str(wrong)}, "is not an RSA key"),
        ({**plain, "document_key_file": str(empty)}, "neither PEM nor PKCS#12"),
        ({**plain, "document_certificate_file": str(empty)}, "has no certificates in PEM"),
        ({**plain, "document_key_password": "x"}, "remove TONNE_DOCUMENT_KEY_PASSWORD"),
        ({**plain, "document_key_file": str(tmp_path / "none")}, "cannot be read"),
    ):
        with pytest.raises(KeyUnusable, match=sentence):
            load_operator_key(msgspec.structs.replace(Settings(), **changes))
    for variables, sentence in (
        ({"TONNE_DOCUMENT_KEY_FILE": "/nowhere.pem"}, "there is no file"),
        ({"TONNE_DOCUMENT_CERTIFICATE_FILE": foreign}, "needs TONNE_DOCUMENT_KEY_FILE"),
        ({"TONNE_DOCUMENT_PKCS11_MODULE": foreign}, "needs TONNE_DOCUMENT_PKCS11_TOKEN"),
        ({"TONNE_DOCUMENT_TIME_STAMP_URL": "ftp://x"}, "must be an http or https URL"),
    ):
        with pytest.raises(SettingsError, match=sentence):
            load_settings(variables)
