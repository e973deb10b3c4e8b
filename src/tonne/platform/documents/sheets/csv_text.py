"""Rows as the text of a CSV file. Escape text of others with `escape_formula` before."""

import csv
import io
from collections.abc import Iterable


def csv_text(rows: Iterable[Iterable[str]]) -> str:
    stream = io.StringIO()
    csv.writer(stream).writerows(rows)
    return stream.getvalue()
