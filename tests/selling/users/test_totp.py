"""Codes of authenticator apps and recovery codes."""

from datetime import timedelta

import pyotp

from tests.support.clock import START
from tonne.selling.users.second_factor.second_factor import (
    STEP_S,
    accepted_step,
    hash_recovery_code,
    new_recovery_codes,
    new_totp_secret,
    provisioning_uri,
    qr_code,
)


def code_at(secret: str, seconds: int = 0) -> str:
    return pyotp.TOTP(secret).at(int(START.timestamp()) + seconds)


def test_codes_of_the_current_and_the_neighbouring_steps_are_accepted() -> None:
    secret = new_totp_secret()
    step = int(START.timestamp()) // STEP_S
    found = [accepted_step(secret, code_at(secret, seconds), START, 0) for seconds in (-60, -30, 0, 30, 60)]
    assert found == [None, step - 1, step, step + 1, None]


def test_a_code_is_accepted_once() -> None:
    secret, step = new_totp_secret(), int(START.timestamp()) // STEP_S
    assert accepted_step(secret, code_at(secret), START, step) is None
    assert accepted_step(secret, code_at(secret, STEP_S), START + timedelta(seconds=STEP_S), step) == step + 1


def test_what_is_no_code_is_refused() -> None:
    secret = new_totp_secret()
    for text in ("", "12345", "1234567", "abcdef", "１２３４５６", code_at(secret)[:5]):
        assert accepted_step(secret, text, START, 0) is None
    spaced = f" {code_at(secret)[:3]} {code_at(secret)[3:]} "
    assert accepted_step(secret, spaced, START, 0) is not None


def test_recovery_codes_are_different_and_read_in_any_spelling() -> None:
    codes = new_recovery_codes()
    assert len(set(codes)) == 10
    assert hash_recovery_code(codes[0].upper().replace("-", " ")) == hash_recovery_code(codes[0])
    assert len({hash_recovery_code(code) for code in codes}) == 10


def test_the_app_shows_who_and_where() -> None:
    uri = provisioning_uri(new_totp_secret(), "ann@example.com", "Offsets Ltd")
    assert uri.startswith("otpauth://totp/Offsets%20Ltd:ann%40example.com?secret=")
    assert qr_code(uri).startswith("<svg ")
