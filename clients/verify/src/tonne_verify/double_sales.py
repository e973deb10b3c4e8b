"""Has anybody retired the same units twice? Compares the retirements that several sellers disclose.

Each seller publishes the openings of its retirements (`tonne log openings --retirements`). They name nobody. Ranges are
sorted on disk, so that the memory does not grow with their number.
"""

import sqlite3
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tonne_verify.agreement import units_of
from tonne_verify.canonical import read_json
from tonne_verify.download import read_lines
from tonne_verify.errors import NotProven
from tonne_verify.openings import Opening, StatementKind
from tonne_verify.report import Report, Verdict

CACHE_KIB = 200_000
BATCH = 10_000
MAX_CONFLICTS = 1_000
CREATE = """
CREATE TABLE ranges (
    seller TEXT, subject TEXT, revision INTEGER, origin TEXT, position INTEGER,
    namespace TEXT, first INTEGER, last INTEGER, serial TEXT,
    PRIMARY KEY (seller, subject)
) WITHOUT ROWID
"""
# A retirement that was corrected counts as it is now. A reopened log may have entries of the closed one again.
INSERT = """
INSERT INTO ranges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET (revision, origin, position, namespace, first, last, serial)
    = (excluded.revision, excluded.origin, excluded.position, excluded.namespace, excluded.first, excluded.last,
       excluded.serial)
WHERE excluded.revision >= revision
"""
IN_ORDER = """
SELECT namespace, first, last, serial, subject, position, origin FROM ranges
WHERE namespace IS NOT NULL ORDER BY namespace, first
"""

Row = tuple[Any, ...]


def find_double_sales(sources: Sequence[str]) -> Report:
    """`sources` are files or addresses. Never raises NotProven."""
    report = Report("Double sales")
    try:
        with tempfile.TemporaryDirectory(prefix="tonne-verify-") as folder:
            _compare(report, sources, Path(folder) / "ranges")
    except NotProven as error:
        report.unreadable = str(error)
    except (sqlite3.Error, OSError) as error:
        report.unreadable = f"The ranges cannot be sorted on disk ({error}). Set TMPDIR to a folder with more space."
    return report


def _compare(report: Report, sources: Sequence[str], path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{CACHE_KIB}"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute(CREATE)
        for source in sources:
            _load(report, connection, source)
        found = 0
        for sentence in _find_overlaps(connection.execute(IN_ORDER)):
            found += 1
            if found <= MAX_CONFLICTS:
                report.add("count", Verdict.FAILS, sentence)
    if found > MAX_CONFLICTS:
        report.add("count", Verdict.FAILS, f"There are {found} overlaps; the first {MAX_CONFLICTS} are named.")
    if not found:
        sentence = "No unit was retired twice, as far as these files disclose retirements."
        report.add("count", Verdict.HOLDS, sentence)


def _load(report: Report, connection: sqlite3.Connection, source: str) -> None:
    uncounted = total = 0
    connection.execute("BEGIN")
    batch: list[Row] = []
    for number, line in enumerate(read_lines(source), start=1):
        try:
            row = _read(line)
        except NotProven as error:
            raise NotProven(f"{source}, line {number}: {error}") from None
        if row is None:
            continue
        total += 1
        uncounted += row[5] is None
        batch.append(row)
        if len(batch) == BATCH:
            connection.executemany(INSERT, batch)
            batch.clear()
    connection.executemany(INSERT, batch)
    connection.execute("COMMIT")
    report.facts.append(f"{source}: {total} retirements.")
    if uncounted:
        sentence = f"{source}: {uncounted} serials are not in a form that this program knows."
        report.add("serials", Verdict.NOT_CHECKED, sentence)


def _read(line: bytes) -> Row | None:
    """Of a retirement in the live mode."""
    value = read_json(line)
    opening = Opening.from_json(value)
    opening.check()
    statement, origin, position = opening.statement, value.get("origin"), value.get("position")
    if statement["kind"] != StatementKind.RETIREMENT or statement["mode"] != "live":
        return None
    if not isinstance(origin, str) or not isinstance(position, int):
        raise NotProven("The line does not say which entry of which log it opens.")
    facts = statement["facts"]
    revision = facts.get("revision", 1)
    units = units_of(facts)
    seller = origin.partition("/")[0]
    start = (seller, str(statement["subject"]), revision if isinstance(revision, int) else 1, origin, position)
    if units is None:
        return (*start, None, None, None, str(facts.get("serial_range")))
    return (*start, units.namespace, units.first, units.last, units.text)


def _find_overlaps(rows: Iterable[Row]) -> Iterator[str]:
    # The range that reaches furthest so far: it can overlap with others than the next one.
    furthest: Row | None = None
    for row in rows:
        is_same = furthest is not None and furthest[0] == row[0]
        if furthest is not None and is_same and row[1] <= furthest[2]:
            yield f"{_name(furthest)} and {_name(row)} overlap: the same units were retired twice."
        if furthest is None or not is_same or row[2] > furthest[2]:
            furthest = row


def _name(row: Row) -> str:
    *_, serial, subject, position, origin = row
    return f"{serial} of retirement {subject} (entry {position} of {origin})"
