"""Reads the files of the European Central Bank with its euro foreign exchange reference rates.

`eurofxref.csv` has the rates of one day, `eurofxref-hist.csv` all days since 1999. The bank packs each into a ZIP file.
"""

import csv
import io
import zipfile
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal

from tonne.platform.values.amounts import DECIMALS, parse_decimal
from tonne.selling.catalogue.prices.reference_rates import ECB, EURO, ReferenceRate

MAX_BYTES = 20_000_000
_DAYS = ("%Y-%m-%d", "%d %B %Y")
_NO_RATE = {"", "N/A"}


class EcbFileInvalid(ValueError):
    """The message says what is wrong."""


def read_ecb_rates(content: bytes, since: date | None = None) -> list[ReferenceRate]:
    """The rates of all days from `since`. Currencies that no longer exist are left out. Raises EcbFileInvalid."""
    rows = csv.reader(io.StringIO(_unpack(content).decode("utf-8-sig", "replace")), skipinitialspace=True)
    head = [name.strip() for name in next(rows, [])]
    if head[:1] != ["Date"] or "USD" not in head:
        raise EcbFileInvalid("it has no head with Date and currencies: download eurofxref.zip or eurofxref-hist.zip")
    found = [rate for row in rows if any(row) for rate in _read_row(head, row, since)]
    if not found:
        raise EcbFileInvalid("it has no rates of the days that were asked for")
    return found


def _unpack(content: bytes) -> bytes:
    if not content.startswith(b"PK"):
        return content
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            [name] = [each for each in archive.infolist() if each.filename.endswith(".csv")]
            if name.file_size > MAX_BYTES:
                raise EcbFileInvalid("it is larger than any file of the bank")
            return archive.read(name)
    except (zipfile.BadZipFile, ValueError, NotImplementedError) as error:
        raise EcbFileInvalid("it is no ZIP file with one CSV file in it") from error


def _read_row(head: Sequence[str], row: Sequence[str], since: date | None) -> Iterator[ReferenceRate]:
    day = _parse_day(row[0].strip())
    if since is not None and day < since:
        return
    for currency, text in zip(head[1:], row[1:], strict=False):
        if currency not in DECIMALS or currency == EURO or text.strip() in _NO_RATE:
            continue
        rate = parse_decimal(text.strip())
        if not rate:
            raise EcbFileInvalid(f"{text!r} of {currency} on {day} is no rate")
        yield ReferenceRate(currency, day, Decimal(rate), ECB)


def _parse_day(text: str) -> date:
    for form in _DAYS:
        try:
            return datetime.strptime(text, form).date()  # noqa: DTZ007 - a day
        except ValueError:
            continue
    raise EcbFileInvalid(f"{text!r} is no day such as 2026-11-19 or 19 November 2026")
