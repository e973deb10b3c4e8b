"""Codes of authenticator apps (RFC 6238), and recovery codes for a lost phone."""

import hashlib
import hmac
import secrets
from datetime import datetime

import pyotp

STEP_S = 30
# Codes of the previous and the next step are accepted: clocks of phones differ.
TOLERANCE_STEPS = 1
RECOVERY_CODES = 10
_ALPHABET = "23456789abcdefghjkmnpqrstuvwxyz"


def new_totp_secret() -> str:
    return pyotp.random_base32()


def provisioning_uri(secret: str, email: str, issuer: str) -> str:
    """What the app reads from the QR code."""
    return pyotp.TOTP(secret).provisioning_uri(name=email, issuer_name=issuer)


def qr_code(uri: str) -> str:
    """The QR code as an SVG image, black on white in both colour schemes."""
    import segno  # noqa: PLC0415 - only the page that sets up a second factor draws a code

    return segno.make(uri, error="m").svg_inline(scale=4, border=2, light="#fff", dark="#000")


def accepted_step(secret: str, code: str, now: datetime, last_step: int) -> int | None:
    """The time step of a valid code that was not used before; None for any other code."""
    digits = "".join(code.split())
    if not (digits.isascii() and digits.isdigit() and len(digits) == 6):
        return None
    current = int(now.timestamp()) // STEP_S
    totp = pyotp.TOTP(secret)
    for step in range(current - TOLERANCE_STEPS, current + TOLERANCE_STEPS + 1):
        if step > last_step and hmac.compare_digest(totp.at(step * STEP_S), digits):
            return step
    return None


def current_code(secret: str, now: datetime, last_step: int) -> str:
    """What the app shows, or the next code if this one was used already."""
    step = max(int(now.timestamp()) // STEP_S, last_step + 1)
    return pyotp.TOTP(secret).at(step * STEP_S)


def new_recovery_codes() -> list[str]:
    """Each has 79 random bits, too many to guess from a stolen hash, and works once."""
    return ["-".join(_random(4) for _ in range(4)) for _ in range(RECOVERY_CODES)]


def hash_recovery_code(code: str) -> bytes:
    plain = "".join(letter for letter in code.lower() if letter in _ALPHABET)
    return hashlib.sha256(plain.encode()).digest()


def _random(length: int) -> str:
    return "".join(secrets.choice(_ALPHABET) for _ in range(length))
