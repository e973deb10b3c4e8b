"""Sealed values: bound to their row and their key, readable with older keys, and readable from before keys had ids."""

import base64
import secrets
import stat
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tonne.platform.keys.secret_box import SecretBox, SecretKeyMissing, SecretUnreadable, create_key_file, sealed_with
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.secret_keys import key_id_of, parse_key
from tonne.platform.settings.settings import Settings, SettingsError

ONE, TWO = bytes(range(32)), bytes(range(1, 33))


def _seal_without_header(key: bytes, text: str, owner_id: str) -> bytes:
    """As before keys had ids."""
    nonce = secrets.token_bytes(12)
    return nonce + AESGCM(key).encrypt(nonce, text.encode(), owner_id.encode())


def test_a_value_opens_only_in_its_own_row() -> None:
    box = SecretBox(ONE)
    sealed = box.seal("whsec_1", "wh_1")
    assert box.open(sealed, "wh_1") == "whsec_1"
    assert b"whsec" not in sealed
    assert box.seal("whsec_1", "wh_1") != sealed
    with pytest.raises(SecretUnreadable, match="damaged"):
        box.open(sealed, "wh_2")


def test_security_13_a_value_names_its_key_and_opens_while_that_key_is_configured() -> None:
    before = SecretBox(ONE).seal("whsec_1", "wh_1")
    assert sealed_with(before) == SecretBox(ONE).key_id == key_id_of(ONE)
    both = SecretBox(TWO, ONE)
    assert both.key_ids == {key_id_of(ONE), key_id_of(TWO)}
    assert both.open(before, "wh_1") == "whsec_1"
    assert sealed_with(both.seal("whsec_1", "wh_1")) == key_id_of(TWO)
    with pytest.raises(SecretUnreadable, match=f"sealed with key {key_id_of(ONE)}, which is not configured"):
        SecretBox(TWO).open(before, "wh_1")


def test_values_sealed_before_keys_had_ids_still_open() -> None:
    sealed = _seal_without_header(ONE, "whsec_1", "wh_1")
    assert sealed_with(sealed) is None
    assert SecretBox(ONE).open(sealed, "wh_1") == "whsec_1"
    assert SecretBox(TWO, ONE).open(sealed, "wh_1") == "whsec_1"
    with pytest.raises(SecretUnreadable):
        SecretBox(TWO).open(sealed, "wh_1")


@pytest.mark.parametrize("cut", [0, 1, 4, 8, 12, 13, 24, 30])
def test_a_damaged_value_is_unreadable(cut: int) -> None:
    box = SecretBox(ONE)
    with pytest.raises(SecretUnreadable):
        box.open(box.seal("whsec_1", "wh_1")[:cut], "wh_1")


def test_the_header_cannot_be_changed_without_notice() -> None:
    box = SecretBox(ONE, TWO)
    sealed = box.seal("whsec_1", "wh_1")
    forged = sealed[:4] + bytes.fromhex(key_id_of(TWO)) + sealed[12:]
    with pytest.raises(SecretUnreadable):
        box.open(forged, "wh_1")


@pytest.mark.parametrize(
    "text",
    ["abc", base64.b64encode(bytes(31)).decode(), base64.b64encode(bytes(33)).decode(), "!" * 43, "é" * 43, "a" * 45],
)
def test_operations_15_a_key_that_is_not_32_bytes_in_base64_is_refused_with_the_settings(text: str) -> None:
    with pytest.raises(SettingsError, match="TONNE_SECRET_KEY must be 32 bytes in base64") as refusal:
        load_settings({"TONNE_SECRET_KEY": text})
    assert text not in str(refusal.value)
    good = base64.b64encode(ONE).decode()
    with pytest.raises(SettingsError, match="TONNE_SECRET_KEYS_OLD must be keys separated by commas"):
        load_settings({"TONNE_SECRET_KEYS_OLD": f"{good},{text}"})


def test_both_alphabets_of_base64_are_accepted_with_or_without_padding() -> None:
    key = bytes([251, 255] * 16)
    for text in (base64.b64encode(key).decode(), base64.urlsafe_b64encode(key).decode()):
        assert parse_key(text) == parse_key(text.rstrip("=")) == parse_key(f"{text}\n") == key


def test_a_key_file_is_private_and_created_once(tmp_path: Path) -> None:
    settings = Settings(data_dir=str(tmp_path / "data"))
    with pytest.raises(SecretKeyMissing, match="openssl rand -base64 32"):
        SecretBox.from_settings(settings)
    assert list(tmp_path.iterdir()) == []
    create_key_file(settings)
    first = SecretBox.from_settings(settings)
    create_key_file(settings)
    assert SecretBox.from_settings(settings).key_id == first.key_id
    [file] = (tmp_path / "data").iterdir()
    assert file.name == "secret.key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("content", [b"", b"abc", b"\xff\xfe"])
def test_a_damaged_key_file_is_named(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "secret.key").write_bytes(content)
    with pytest.raises(SettingsError, match=str(tmp_path / "secret.key")):
        SecretBox.from_settings(Settings(data_dir=str(tmp_path)))
