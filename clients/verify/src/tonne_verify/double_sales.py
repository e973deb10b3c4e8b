"""Has anybody retired the same units twice? Compares the retirements that several sellers disclose.

Each seller publishes the openings of its retirements (`log_discloses`). They name nobody. Ranges are
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
from tonne_verify.disclosures import Disclosures, OpenLogs, find_disclosures, read_disclosures
from tonne_verify.errors import NotFetched, NotProven
from tonne_verify.openings import Opening, StatementKind
from tonne_verify.report import Report, Verdict

CACHE_KIB = 200_000
BATCH = 10_000
MAX_CONFLICTS = 1_000
CREATE = """
CREATE TABLE ranges (
    seller TEXT, subject TEXT, revision INTEGER, origin TEXT, position INTEGER, entry BLOB,
    namespace TEXT, first INTEGER, last INTEGER, serial TEXT, other TEXT,
    PRIMARY KEY (seller, subject)
) WITHOUT ROWID
"""
_NEWEST = ("origin", "position", "entry", "namespace", "first", "last", "serial", "revision")
_SET = ", ".join(f"{name} = iif(excluded.revision >= revision, excluded.{name}, {name})" for name in _NEWEST)
# A retirement that was corrected counts as it is now; `other` are the units that it had. A reopened log may have
# entries of the closed one again.
INSERT = f"""
INSERT INTO ranges VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, NULL)
ON CONFLICT DO UPDATE SET {_SET}, other = iif(excluded.serial <> serial,
                                              iif(excluded.revision >= revision, serial, excluded.serial), other)
"""  # noqa: S608 - fixed names
IN_ORDER = """
SELECT namespace, first, last, serial, subject, position, origin, entry FROM ranges
WHERE namespace IS NOT NULL ORDER BY namespace, first
"""
REVISED = "SELECT serial, subject, position, origin, other FROM ranges WHERE other IS NOT NULL"

Row = tuple[Any, ...]


def find_double_sales(sources: Sequence[str]) -> Report:
    """`sources` are files, or addresses of sellers, logs or files. Never raises NotProven."""
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
    known = OpenLogs()
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for pragma in ("journal_mode = OFF", "synchronous = OFF", f"cache_size = -{CACHE_KIB}"):
            connection.execute(f"PRAGMA {pragma}")
        connection.execute(CREATE)
        for source in sources:
            _load(report, connection, source, known)
        found = 0
        for one, other in _find_overlaps(connection.execute(IN_ORDER)):
            found += 1
            if found <= MAX_CONFLICTS:
                _add_overlap(report, one, other, known)
        _add_revised(report, connection)
    if found > MAX_CONFLICTS:
        report.add("count", Verdict.NOT_PROVEN, f"There are {found} overlaps; the first {MAX_CONFLICTS} are named.")
    if not found:
        sentence = "No unit was retired twice, as far as these files disclose retirements."
        report.add("count", Verdict.HOLDS, sentence)


def _add_overlap(report: Report, one: Row, other: Row, known: OpenLogs) -> None:
    """An overlap accuses a seller only if its own log has the entry."""
    sentence, verdict = f"{_name(one)} and {_name(other)} overlap: the same units were retired twice.", Verdict.FAILS
    for *_, subject, position, origin, entry in (one, other):
        try:
            known.check(origin, position, entry)
        except NotFetched as error:
            verdict = Verdict.NOT_PROVEN
            sentence += f" {error}"
        except NotProven:
            verdict = Verdict.NOT_PROVEN
            told = f"What is disclosed of retirement {subject} is not entry {position} of {origin}: it was made up."
            report.add("log", Verdict.FAILS, told)
    report.add("count", verdict, sentence)


def _add_revised(report: Report, connection: sqlite3.Connection) -> None:
    found = 0
    for *row, other in connection.execute(REVISED):
        found += 1
        if found <= MAX_CONFLICTS:
            sentence = f"{_name((*row, None))} was {other} before: the earlier units were not compared."
            report.add("revised", Verdict.NOT_CHECKED, sentence)
    if found:
        report.facts.append(f"Retirements that were revised to other units: {found}.")


def _load(report: Report, connection: sqlite3.Connection, source: str, known: OpenLogs) -> None:
    uncounted = total = 0
    disclosed = find_disclosures(source)
    known.logs |= disclosed.logs or {}
    if not disclosed.sources:
        report.add("disclosed", Verdict.NOT_CHECKED, f"{source} discloses no retirements.")
    connection.execute("BEGIN")
    batch: list[Row] = []
    for place, line in read_disclosures(disclosed):
        try:
            row = _read(line, disclosed)
        except NotProven as error:
            raise NotProven(f"{place}: {error}") from None
        if row is None:
            continue
        total += 1
        uncounted += row[6] is None
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


def _read(line: bytes, disclosed: Disclosures) -> Row | None:
    """Of a retirement in the live mode."""
    value = read_json(line)
    opening = Opening.from_json(value)
    opening.check()
    statement, origin, position = opening.statement, value.get("origin"), value.get("position")
    if statement["kind"] != StatementKind.RETIREMENT or statement["mode"] != "live":
        return None
    if not isinstance(origin, str) or not isinstance(position, int):
        raise NotProven("The line does not say which entry of which log it opens.")
    if disclosed.logs is not None and origin not in disclosed.logs:
        raise NotProven(f"It names a log of somebody else, {origin}.")
    facts = statement["facts"]
    revision = facts.get("revision", 1)
    units = units_of(facts)
    seller = origin.partition("/")[0]
    number = revision if isinstance(revision, int) else 1
    start = (seller, str(statement["subject"]), number, origin, position, opening.commitment())
    if units is None:
        return (*start, None, None, None, str(facts.get("serial_range")))
    return (*start, units.namespace, units.first, units.last, units.text)


def _find_overlaps(rows: Iterable[Row]) -> Iterator[tuple[Row, Row]]:
    # The range that reaches furthest so far: it can overlap with others than the next one.
    furthest: Row | None = None
    for row in rows:
        is_same = furthest is not None and furthest[0] == row[0]
        if furthest is not None and is_same and row[1] <= furthest[2]:
            yield furthest, row
        if furthest is None or not is_same or row[2] > furthest[2]:
            furthest = row


def _name(row: Row) -> str:
    *_, serial, subject, position, origin, _ = row
    return f"{serial} of retirement {subject} (entry {position} of {origin})"
