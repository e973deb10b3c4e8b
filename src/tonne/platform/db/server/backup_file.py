"""The file that `tonne backup` writes: a zip archive with a dump of the database, the secret key and a manifest."""

import contextlib
import fcntl
import hashlib
import os
import zipfile
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import IO, Protocol

import msgspec
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

FORMAT = 1
MANIFEST, DUMP, KEY, SEALED_KEY = "manifest.json", "database.dump", "secret.key", "secret.key.encrypted"
CHUNK = 1024 * 1024
_SALT_BYTES, _NONCE_BYTES = 16, 12


class BackupError(Exception):
    """A backup cannot be written, read or restored. The message says what to do."""


class FileFacts(msgspec.Struct, frozen=True):
    size: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """What is in the backup. `tables` has the number of rows of each table, `key_ids` the keys of sealed secrets."""

    format: int
    created_at: datetime
    tonne_version: str
    postgres_major: int
    schema_version: int
    key_ids: list[str]
    tables: dict[str, int]
    files: dict[str, FileFacts]


class Write(Protocol):
    def __call__(self, data: bytes, /) -> object: ...


class BackupWriter:
    """Adds files one after the other, and the manifest at the end."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive
        self.files: dict[str, FileFacts] = {}

    @contextlib.contextmanager
    def adding(self, name: str) -> Iterator[Write]:
        digest, size = hashlib.sha256(), 0
        with self._archive.open(name, "w", force_zip64=True) as member:

            def write(data: bytes) -> None:
                nonlocal size
                digest.update(data)
                size += len(data)
                member.write(data)

            yield write
        self.files[name] = FileFacts(size, digest.hexdigest())

    def add(self, name: str, content: bytes) -> None:
        with self.adding(name) as write:
            write(content)

    def finish(self, manifest: Manifest) -> None:
        self._archive.writestr(MANIFEST, msgspec.json.format(msgspec.json.encode(manifest), indent=2))


@contextlib.contextmanager
def new_backup(path: Path) -> Iterator[BackupWriter]:
    """Write to a hidden file beside `path`, which gets its name at the end: there is never half a backup under it.

    The lock tells a file that is being written from one that a killed process
    has left, which is overwritten.
    """
    if path.exists():
        raise BackupError(f"{path} exists already: choose another name.")
    partial = path.with_name(f".{path.name}.partial")
    try:
        descriptor = os.open(partial, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise BackupError(f"{path} cannot be written: {error.strerror}.") from error
    with os.fdopen(descriptor, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupError(f"Another process is writing {path}: wait for it, or choose another name.") from error
        try:
            file.truncate()
            with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
                yield BackupWriter(archive)
            file.flush()
            os.fsync(file.fileno())
            _publish(partial, path)
        except OSError as error:
            partial.unlink(missing_ok=True)
            raise BackupError(f"{path} cannot be written: {error.strerror}.") from error
        except BaseException:
            partial.unlink(missing_ok=True)
            raise


def _publish(partial: Path, path: Path) -> None:
    try:
        # A link, not a rename: it never replaces a file that appeared meanwhile.
        path.hardlink_to(partial)
    except FileExistsError as error:
        raise BackupError(f"{path} was created by another program meanwhile: choose another name.") from error
    except OSError:
        # Some file systems have no links.
        partial.rename(path)
    partial.unlink(missing_ok=True)
    descriptor = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class BackupFile:
    """A backup that was opened and whose manifest was read."""

    def __init__(self, path: Path, archive: zipfile.ZipFile, manifest: Manifest) -> None:
        self.path = path
        self.manifest = manifest
        self._archive = archive

    def check(self) -> None:
        """Compare the size and the checksum of every file with the manifest. Raises BackupError."""
        expected = self.manifest.files
        if set(self._archive.namelist()) != {*expected, MANIFEST}:
            raise BackupError(f"{self.path} is damaged: its files are not those of its manifest. Use another backup.")
        for name, facts in expected.items():
            digest, size = hashlib.sha256(), 0
            with self._reading(name) as member:
                while data := member.read(CHUNK):
                    digest.update(data)
                    size += len(data)
            if (size, digest.hexdigest()) != (facts.size, facts.sha256):
                raise _damaged(self.path, name)

    def extract_dump(self, target: Path) -> None:
        with self._reading(DUMP) as member, target.open("xb") as file:
            while data := member.read(CHUNK):
                file.write(data)

    def read(self, name: str) -> bytes | None:
        """A small file. None if the backup does not have it."""
        if name not in self.manifest.files:
            return None
        with self._reading(name) as member:
            return member.read()

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[IO[bytes]]:
        try:
            with self._archive.open(name) as member:
                yield member
        except (KeyError, zipfile.BadZipFile, EOFError) as error:
            raise _damaged(self.path, name) from error


@contextlib.contextmanager
def open_backup(path: Path) -> Iterator[BackupFile]:
    """Raises BackupError if the file is no backup, or one of a newer format."""
    with contextlib.ExitStack() as stack:
        try:
            archive = stack.enter_context(zipfile.ZipFile(path))
            manifest = msgspec.json.decode(archive.read(MANIFEST), type=Manifest)
        except (zipfile.BadZipFile, KeyError, msgspec.MsgspecError) as error:
            raise BackupError(f"{path} is not a backup of Tonne, or it is incomplete. Use another backup.") from error
        except OSError as error:
            raise BackupError(f"{path} cannot be read: {error.strerror or error}.") from error
        if manifest.format > FORMAT:
            raise BackupError(f"{path} was written by Tonne {manifest.tonne_version}: use that release or a newer one.")
        yield BackupFile(path, archive, manifest)


def _damaged(path: Path, name: str) -> BackupError:
    return BackupError(f"{path} is damaged: the checksum of {name} is wrong. Use another backup.")


def seal_key(key: bytes, passphrase: str) -> bytes:
    """Encrypt the secret key with a passphrase: salt, nonce and ciphertext."""
    salt, nonce = os.urandom(_SALT_BYTES), os.urandom(_NONCE_BYTES)
    return salt + nonce + AESGCM(_derive(passphrase, salt)).encrypt(nonce, key, SEALED_KEY.encode())


def open_key(sealed: bytes, passphrase: str) -> bytes:
    """Raises BackupError if the passphrase is wrong."""
    salt, nonce = sealed[:_SALT_BYTES], sealed[_SALT_BYTES:][:_NONCE_BYTES]
    try:
        ciphertext = sealed[_SALT_BYTES + _NONCE_BYTES :]
        return AESGCM(_derive(passphrase, salt)).decrypt(nonce, ciphertext, SEALED_KEY.encode())
    except InvalidTag as error:
        raise BackupError("The passphrase does not open the secret key of this backup. Check it.") from error


def _derive(passphrase: str, salt: bytes) -> bytes:
    """A key that takes about 0.1 s and 32 MB to derive, so that passphrases cannot be tried quickly."""
    return Scrypt(salt=salt, length=32, n=2**15, r=8, p=1).derive(passphrase.encode())
