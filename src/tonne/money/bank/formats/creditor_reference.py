"""Creditor references, ISO 11649: a reference with check digits that banks pass on unchanged."""

import re

from tonne.platform.values.iban import checksum

_MAX_LENGTH = 21
_FORM = re.compile(r"RF[0-9]{2}[A-Z0-9]{1,21}", re.ASCII)


def creditor_reference(reference: str) -> str:
    """`TN-LIVE-000123` as `RF09TNLIVE000123`."""
    letters = "".join(c for c in reference.upper() if c.isascii() and c.isalnum())
    if not 0 < len(letters) <= _MAX_LENGTH:
        raise ValueError(f"{reference!r} does not fit into a creditor reference")
    return f"RF{98 - checksum(f'{letters}RF00'):02d}{letters}"


def is_creditor_reference(text: str) -> bool:
    compact = "".join(text.split()).upper()
    return _FORM.fullmatch(compact) is not None and checksum(compact[4:] + compact[:4]) == 1
