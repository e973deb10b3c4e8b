"""How an invoice is named, and how its name is found again in what payers write."""

import re
import unicodedata
from collections.abc import Iterator

from tonne.base.scope import Mode

_WIDTH = 6
# Numbers with more digits are no invoice's, whatever they are.
_MAX_DIGITS = 15
_DASHES = r"\-\u2010-\u2015"
# Banks break lines anywhere, also within a word.
_GAP = rf"[\s_./:{_DASHES}]*"
_WORDS = "|".join(f"(?P<{mode}>{_GAP.join('TN' + mode.upper())})" for mode in Mode)
_REFERENCE = re.compile(rf"(?:{_WORDS}){_GAP}(?P<digits>[0-9]+(?:[\s{_DASHES}]*[0-9]+)*)")
_GROUP = re.compile(r"[0-9]+")


def reference_of(mode: Mode, number: int) -> str:
    """What a payer writes on the transfer, and the invoice's number to everybody: `TN-LIVE-000123`."""
    return f"TN-{mode.upper()}-{number:0{_WIDTH}d}"


def references_in(text: str) -> list[set[str]]:
    """The references that a free text may name: one set for each place where it seems to name one.

    Payers drop zeros, banks put spaces in, and other numbers may follow: `TN-LIVE-000 123 4711` can only mean 000123,
    while `tn live 123456 7` may mean either of two. Which of a set exists, the invoices tell.
    """
    plain = unicodedata.normalize("NFKC", text).upper()
    places = []
    for found in _REFERENCE.finditer(plain):
        mode = next(mode for mode in Mode if found[mode])
        places.append({reference_of(mode, number) for number in _numbers(found["digits"])})
    return [place for place in places if place]


def _numbers(digits: str) -> Iterator[int]:
    written = ""
    for group in _GROUP.findall(digits):
        written += group
        if len(written) > _MAX_DIGITS:
            return
        # Zeros in front are written to the full width or not at all: anything else is a piece of a reference.
        if int(written) > 0 and (written[0] != "0" or len(written) == _WIDTH):
            yield int(written)
