"""International bank account numbers, ISO 13616."""

import re

_FORM = re.compile(r"[A-Z]{2}[0-9]{2}[A-Z0-9]{11,30}", re.ASCII)


def compact_iban(text: str) -> str:
    """Without spaces and in capitals, as banks compare it."""
    return "".join(text.split()).upper()


def is_iban(text: str) -> bool:
    """Whether the check digits are right. Money sent to a mistyped account is hard to get back."""
    iban = compact_iban(text)
    return _FORM.fullmatch(iban) is not None and checksum(iban[4:] + iban[:4]) == 1


def checksum(text: str) -> int:
    """ISO 7064 MOD 97-10 of digits and capital letters, which count from 10."""
    return int("".join(str(int(character, 36)) for character in text)) % 97
