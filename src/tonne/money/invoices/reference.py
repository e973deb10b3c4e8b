"""Invoice references, and how to find them in the text that payers write on a transfer."""

import re
import unicodedata
from collections.abc import Iterator

from tonne.money.invoices.tax_documents import WIDTH, DocumentKind, reference_in
from tonne.platform.values.context import Mode

# Longer numbers cannot be invoice numbers.
_MAX_DIGITS = 15
_DASHES = r"\-\u2010-\u2015"
# Banks insert line breaks anywhere, even within a word.
_GAP = rf"[\s_./:{_DASHES}]*"
_WORDS = "|".join(f"(?P<{mode}>{_GAP.join('TN' + mode.upper())})" for mode in Mode)
_REFERENCE = re.compile(rf"(?:{_WORDS}){_GAP}(?P<digits>[0-9]+(?:[\s{_DASHES}]*[0-9]+)*)")
_GROUP = re.compile(r"[0-9]+")


def reference_of(mode: Mode, number: int) -> str:
    """The number of an invoice, which payers quote on the transfer: `TN-LIVE-000123`."""
    return reference_in(DocumentKind.INVOICE, mode, number)


def references_in(text: str) -> list[set[str]]:
    """The references that a text may contain: one set of candidates for each place.

    Payers drop zeros, banks insert spaces, and other numbers may follow: `TN-LIVE-000 123 4711` can only mean 000123,
    while `tn live 123456 7` may mean either of two. The caller checks which of the candidates exists.
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
        # Leading zeros are valid only at the full width: anything else is part of a longer reference.
        if int(written) > 0 and (written[0] != "0" or len(written) == WIDTH):
            yield int(written)
