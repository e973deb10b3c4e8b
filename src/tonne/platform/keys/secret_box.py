"""Encrypts secrets in the database with AES-256-GCM, each bound to the row it belongs to.

A sealed value is `TSB1`, the id of its key (8 bytes), a nonce (12 bytes) and the ciphertext. Values without this header
are older: they start with the nonce, and every key is tried.
"""

import os
import secrets
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tonne.platform.process.private_files import create_private_folder
from tonne.platform.settings.secret_keys import KEY_ID_BYTES, key_id_of, parse_key, parse_keys
from tonne.platform.settings.settings import Settings, SettingsError

KEY_FILE = "secret.key"
PREFIX = b"TSB1"
HEADER_BYTES = len(PREFIX) + KEY_ID_BYTES
_NONCE_BYTES = 12


class SecretUnreadable(Exception):
    """A sealed value cannot be opened: its key is not configured, or it is damaged."""


class SecretKeyMissing(SettingsError):
    """Neither the settings nor the data folder has a key."""


class SecretBox:
    """Seals with the current key. Opens values of the current and of older keys."""

    def __init__(self, key: bytes, *old_keys: bytes) -> None:
        self.key_id = key_id_of(key)
        self._ciphers = {key_id_of(each): AESGCM(each) for each in (key, *old_keys)}
        # All values sealed with the current key start with this.
        self.header = PREFIX + bytes.fromhex(self.key_id)

    @classmethod
    def from_settings(cls, settings: Settings) -> "SecretBox":
        """Use the key in the settings or in the data folder. Raises SecretKeyMissing or SettingsError."""
        old = parse_keys(settings.secret_keys_old)
        if settings.secret_key:
            return cls(parse_key(settings.secret_key), *old)
        path = key_file(settings)
        try:
            return cls(parse_key(path.read_text(encoding="ascii")), *old)
        except FileNotFoundError as error:
            raise SecretKeyMissing(
                f"The secret key is missing: TONNE_SECRET_KEY is not set and {path} does not exist. Set "
                "TONNE_SECRET_KEY; for a new database, create a key with `openssl rand -base64 32`."
            ) from error
        except OSError as error:
            raise SettingsError(f"The secret key in {path} cannot be read: {error.strerror}.") from error
        except ValueError as error:
            raise SettingsError(
                f"{path} is not a valid key: restore it from your backup. It must be 32 bytes in base64."
            ) from error

    @property
    def key_ids(self) -> frozenset[str]:
        return frozenset(self._ciphers)

    def seal(self, text: str, owner_id: str) -> bytes:
        """Encrypt. `open` needs the same `owner_id`: a ciphertext copied to another row cannot be decrypted there."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._ciphers[self.key_id].encrypt(nonce, text.encode(), self.header + owner_id.encode())
        return self.header + nonce + sealed

    def open(self, sealed: bytes, owner_id: str) -> str:
        """Raises SecretUnreadable."""
        key_id = sealed_with(sealed)
        if key_id is None:
            header, ciphers = b"", list(self._ciphers.values())
        else:
            header, ciphers = sealed[:HEADER_BYTES], [self._ciphers[key_id]] if key_id in self._ciphers else []
        nonce, ciphertext = sealed[len(header) :][:_NONCE_BYTES], sealed[len(header) + _NONCE_BYTES :]
        for cipher in ciphers:
            try:
                return cipher.decrypt(nonce, ciphertext, header + owner_id.encode()).decode()
            except (InvalidTag, ValueError):
                continue
        if key_id is not None and not ciphers:
            raise SecretUnreadable(f"it is sealed with key {key_id}, which is not configured")
        raise SecretUnreadable("it is damaged" if key_id is not None else "no configured key opens it")


def sealed_with(sealed: bytes) -> str | None:
    """The id of the key of a sealed value. None when it has no header."""
    return sealed[len(PREFIX) : HEADER_BYTES].hex() if sealed.startswith(PREFIX) else None


def key_file(settings: Settings) -> Path:
    return settings.data_path / KEY_FILE


def create_key_file(settings: Settings) -> None:
    """Write a new key, unless there is one. Call it only for a database without sealed values."""
    path = key_file(settings)
    create_private_folder(path.parent)
    fresh = path.with_name(f"{KEY_FILE}.{os.getpid()}")
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
        file.write(secrets.token_urlsafe(32))
    # A link, not a rename: if two processes start at once, both use the key of the first.
    try:
        path.hardlink_to(fresh)
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
