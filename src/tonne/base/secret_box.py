"""Encrypts secrets in the database with AES-256-GCM, each bound to the row it belongs to."""

import base64
import binascii
import os
import secrets
from pathlib import Path

from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tonne.base.settings import Settings, SettingsError

KEY_FILE = "secret.key"
_NONCE_BYTES = 12


class SecretBox:
    def __init__(self, key: bytes) -> None:
        self._cipher = AESGCM(key)

    @classmethod
    def from_settings(cls, settings: Settings) -> "SecretBox":
        """Use the key from the settings, or the one in the data folder, which is created at the first start."""
        if settings.secret_key:
            return cls(_decode(settings.secret_key, "TONNE_SECRET_KEY"))
        path = settings.data_path / KEY_FILE
        return cls(_decode(_read_or_create(path), str(path)))

    def seal(self, text: str, owner_id: str) -> bytes:
        """Encrypt. `open` needs the same `owner_id`: a ciphertext copied to another row cannot be decrypted there."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, text.encode(), owner_id.encode())

    def open(self, box: bytes, owner_id: str) -> str:
        return self._cipher.decrypt(box[:_NONCE_BYTES], box[_NONCE_BYTES:], owner_id.encode()).decode()


def _decode(text: str, source: str) -> bytes:
    try:
        key = base64.urlsafe_b64decode(text.strip() + "=" * (-len(text.strip()) % 4))
    except (ValueError, binascii.Error):
        key = b""
    if len(key) != 32:
        raise SettingsError(f"{source} must be 32 bytes in base64, as printed by `openssl rand -base64 32`.")
    return key


def _read_or_create(path: Path) -> str:
    """Create the file under another name, then link it: if two processes start at once, both use the same key."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        fresh = path.with_name(f"{KEY_FILE}.{os.getpid()}")
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as file:
            file.write(secrets.token_urlsafe(32))
        try:
            path.hardlink_to(fresh)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text(encoding="ascii")
