"""Which table locks a statement of a migration takes, read from its text.

It knows the forms that migrations use, not all of SQL. A statement that it does not know is reported as such. What a DO
block locks is in a comment above it, `-- brief locks: events, mails`: it locks these tables for a moment only.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from enum import StrEnum

from msgspec import Struct

from tonne.platform.db.schema.migration_files import SqlStatement


class LockMode(StrEnum):
    ACCESS_SHARE = "ACCESS SHARE"
    ROW_EXCLUSIVE = "ROW EXCLUSIVE"
    SHARE_UPDATE_EXCLUSIVE = "SHARE UPDATE EXCLUSIVE"
    SHARE = "SHARE"
    SHARE_ROW_EXCLUSIVE = "SHARE ROW EXCLUSIVE"
    EXCLUSIVE = "EXCLUSIVE"
    ACCESS_EXCLUSIVE = "ACCESS EXCLUSIVE"
    UNKNOWN = "UNKNOWN"

    @property
    def blocks_writers(self) -> bool:
        return _STRENGTH[self] >= _STRENGTH[LockMode.SHARE]


_STRENGTH = {mode: strength for strength, mode in enumerate(LockMode)}


class Work(StrEnum):
    """What a statement does while it holds its lock."""

    BRIEF = "brief"
    SCANS = "scans"
    REWRITES = "rewrites"


class TableLock(Struct, frozen=True):
    """`table` is the name of an index, in DROP INDEX."""

    table: str
    mode: LockMode
    work: Work = Work.BRIEF
    is_index: bool = False


_NAME = r'(?:"?public"?\.)?"?(\w+)"?'
_VOLATILE = re.compile(
    r"\b(random|clock_timestamp|gen_random_uuid|uuidv7|uuidv4|nextval|timeofday)\s*\(", re.IGNORECASE
)
# Not the name of the column, which may be any of these words.
_SERIAL = re.compile(
    r"^(small|big)?serial\d?\b|\bGENERATED\b.*?\bAS\s+IDENTITY\b|\)\s*STORED\b", re.IGNORECASE | re.DOTALL
)
_COLUMN = re.compile(r"ADD\s+(?:COLUMN\s+)?(?:IF\s+NOT\s+EXISTS\s+)?(?:\"[^\"]+\"|\w+)\s+", re.IGNORECASE)
_REFERENCES = re.compile(rf"\bREFERENCES\s+{_NAME}", re.IGNORECASE)
_CREATED = re.compile(rf"CREATE\s+(?:UNLOGGED\s+)?TABLE\s+(?:IF\s+NOT\s+EXISTS\s+)?{_NAME}", re.IGNORECASE)
# Later parts of an ON CONFLICT or a CTE are covered by the mode of the first table.
_WRITTEN = re.compile(
    rf"\b(?:(?P<insert>INSERT\s+INTO)|(?P<change>UPDATE|DELETE\s+FROM|MERGE\s+INTO))\s+(?:ONLY\s+)?{_NAME}",
    re.IGNORECASE,
)
_QUOTED = re.compile(r"'(?:[^']|'')*'")

STATED = "brief locks:"
AE, SRE, SUE = LockMode.ACCESS_EXCLUSIVE, LockMode.SHARE_ROW_EXCLUSIVE, LockMode.SHARE_UPDATE_EXCLUSIVE


def created_tables(statements: Iterable[SqlStatement]) -> set[str]:
    """Tables that a migration creates: nobody waits for locks on them, and they are empty."""
    found = (_CREATED.match(statement.text) for statement in statements)
    return {match[1] for match in found if match}


def locks_of(statement: SqlStatement) -> list[TableLock]:
    """The locks on tables, strongest work last. A statement of an unknown form has the mode UNKNOWN."""
    stated = [comment.removeprefix(STATED) for comment in statement.comments if comment.startswith(STATED)]
    if stated and statement.text.upper().startswith("DO"):
        return [TableLock(name.strip(), AE) for names in stated for name in names.split(",")]
    text = _QUOTED.sub("''", statement.text) if not statement.text.upper().startswith("DO") else statement.text
    for pattern, read in _FORMS:
        match = pattern.match(text)
        if match:
            return list(read(match, text))
    return [TableLock("?", LockMode.UNKNOWN, Work.SCANS)]


def _create_table(_: re.Match[str], text: str) -> Iterator[TableLock]:
    for name in sorted(set(_REFERENCES.findall(text))):
        yield TableLock(name, SRE)


def _create_index(match: re.Match[str], _: str) -> Iterator[TableLock]:
    yield TableLock(match[2], SUE if match[1] else LockMode.SHARE, Work.SCANS)


def _drop_index(match: re.Match[str], _: str) -> Iterator[TableLock]:
    for name in match[2].split(","):
        yield TableLock(name.strip().strip('"'), SUE if match[1] else AE, is_index=True)


def _alter_table(match: re.Match[str], _: str) -> Iterator[TableLock]:
    table = match[1]
    for action in _top_level(match[2]):
        mode, work = _alter_action(action)
        yield TableLock(table, mode, work)
        for referenced in _REFERENCES.findall(action):
            yield TableLock(referenced, SRE, Work.BRIEF if work is not Work.SCANS else Work.SCANS)


def _alter_action(action: str) -> tuple[LockMode, Work]:
    for pattern, mode, work in _ACTIONS:
        if pattern.match(action):
            return mode, work
    if re.match(r"ADD\b(?!\s+(CONSTRAINT|PRIMARY|UNIQUE|CHECK|FOREIGN|EXCLUDE)\b)", action, re.IGNORECASE):
        return AE, _add_column(action)
    if re.match(r"ADD\b", action, re.IGNORECASE):
        return _add_constraint(action)
    return LockMode.UNKNOWN, Work.SCANS


def _add_column(action: str) -> Work:
    action = _COLUMN.sub("", action, count=1)
    if _VOLATILE.search(action) or _SERIAL.search(action):
        return Work.REWRITES
    has_default = re.search(r"\bDEFAULT\b", action, re.IGNORECASE)
    if re.search(r"\b(CHECK|UNIQUE|PRIMARY\s+KEY)\b", action, re.IGNORECASE):
        return Work.SCANS
    # Without a default every value is null, so PostgreSQL does not look for the referenced rows.
    return Work.SCANS if has_default and _REFERENCES.search(action) else Work.BRIEF


def _add_constraint(action: str) -> tuple[LockMode, Work]:
    is_foreign = _REFERENCES.search(action) is not None
    is_brief = re.search(r"\bNOT\s+VALID\b|\bUSING\s+INDEX\b", action, re.IGNORECASE)
    return SRE if is_foreign else AE, Work.BRIEF if is_brief else Work.SCANS


def _top_level(actions: str) -> list[str]:
    """The actions of ALTER TABLE, split at commas outside parentheses."""
    parts, depth = [""], 0
    for letter in actions:
        depth += (letter == "(") - (letter == ")")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts if part.strip()]


def _write(_: re.Match[str], text: str) -> Iterator[TableLock]:
    for match in _WRITTEN.finditer(text):
        if match["change"] and re.search(r"\bDO\s+$", text[: match.start()], re.IGNORECASE):
            continue  # ON CONFLICT … DO UPDATE SET
        if match[3].upper() in {"SET", "OF"}:
            continue  # FOR UPDATE OF
        yield TableLock(match[3], LockMode.ROW_EXCLUSIVE, Work.REWRITES if match["change"] else Work.BRIEF)


def _on_table(mode: LockMode, work: Work = Work.BRIEF) -> Callable[[re.Match[str], str], Iterator[TableLock]]:
    def read(match: re.Match[str], _: str) -> Iterator[TableLock]:
        for name in match[1].split(","):
            yield TableLock(name.strip().strip('"'), mode, work)

    return read


def _lock_table(match: re.Match[str], _: str) -> Iterator[TableLock]:
    mode = LockMode((match[2] or "ACCESS EXCLUSIVE").upper())
    for name in match[1].split(","):
        yield TableLock(name.strip().strip('"'), mode)


def _none(_: re.Match[str], __: str) -> Iterator[TableLock]:
    return iter(())


def _form(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE | re.DOTALL)


_IF = r"(?:IF\s+(?:NOT\s+)?EXISTS\s+)?"
_FORMS: list[tuple[re.Pattern[str], Callable[[re.Match[str], str], Iterable[TableLock]]]] = [
    (_CREATED, _create_table),
    (
        _form(rf"CREATE\s+(?:UNIQUE\s+)?INDEX\s+(CONCURRENTLY\s+)?{_IF}(?:\w+\s+)?ON\s+(?:ONLY\s+)?{_NAME}"),
        _create_index,
    ),
    (_form(rf"DROP\s+INDEX\s+(CONCURRENTLY\s+)?{_IF}(.+)"), _drop_index),
    (_form(rf"ALTER\s+TABLE\s+{_IF}(?:ONLY\s+)?{_NAME}\s+(.*)"), _alter_table),
    (_form(rf"CREATE\s+(?:OR\s+REPLACE\s+)?(?:CONSTRAINT\s+)?TRIGGER\s+.*?\sON\s+{_NAME}"), _on_table(SRE)),
    (_form(rf"DROP\s+TRIGGER\s+{_IF}\w+\s+ON\s+{_NAME}"), _on_table(AE)),
    (
        _form(rf"DROP\s+(?:MATERIALIZED\s+)?(?:TABLE|VIEW)\s+{_IF}([\w\s,\"]+?)(?:\s+(?:CASCADE|RESTRICT))?$"),
        _on_table(AE),
    ),
    (_form(r"TRUNCATE\s+(?:TABLE\s+)?([\w\s,\"]+)"), _on_table(AE)),
    (_form(r"LOCK\s+(?:TABLE\s+)?(?:ONLY\s+)?([\w\s,\"]+?)(?:\s+IN\s+([A-Z ]+)\s+MODE)?$"), _lock_table),
    (_form(rf"REINDEX\s+(?:TABLE|INDEX)\s+CONCURRENTLY\s+{_NAME}"), _on_table(SUE, Work.SCANS)),
    (_form(rf"(?:REINDEX\s+(?:TABLE|INDEX)|CLUSTER|VACUUM\s+FULL)\s+{_NAME}"), _on_table(AE, Work.REWRITES)),
    (_form(rf"(?:ANALYZE|VACUUM)\s+{_NAME}"), _on_table(SUE, Work.SCANS)),
    (_form(rf"COMMENT\s+ON\s+TABLE\s+{_NAME}"), _on_table(SUE)),
    (_form(r"(?:WITH\b.*?)?\b(?:INSERT|UPDATE|DELETE|MERGE)\b"), _write),
    (
        _form(
            r"(?:CREATE|DROP|ALTER|COMMENT\s+ON)\s+(?:OR\s+REPLACE\s+)?"
            r"(?:FUNCTION|PROCEDURE|TYPE|DOMAIN|SEQUENCE|EXTENSION|VIEW|STATISTICS|INDEX|COLUMN|CONSTRAINT|COLLATION)\b"
        ),
        _none,
    ),
    (_form(r"(?:SELECT|SET|GRANT|REVOKE)\b"), _none),
]
_ACTIONS: list[tuple[re.Pattern[str], LockMode, Work]] = [
    (_form(r"VALIDATE\s+CONSTRAINT"), SUE, Work.SCANS),
    (_form(r"ALTER\s+(?:COLUMN\s+)?\w+\s+(?:SET\s+DATA\s+)?TYPE\b"), AE, Work.REWRITES),
    (_form(r"ALTER\s+(?:COLUMN\s+)?\w+\s+SET\s+NOT\s+NULL"), AE, Work.SCANS),
    (_form(r"ALTER\s+(?:COLUMN\s+)?\w+\s+SET\s+STATISTICS|SET\s*\(|RESET\s*\("), SUE, Work.BRIEF),
    (
        _form(r"ALTER\s+(?:COLUMN\s+)?\w+\s+(?:SET\s+DEFAULT|DROP\s+DEFAULT|DROP\s+NOT\s+NULL|SET\s+STORAGE)"),
        AE,
        Work.BRIEF,
    ),
    (_form(r"(?:ENABLE|DISABLE)\s+(?:ALWAYS\s+|REPLICA\s+)?TRIGGER"), SRE, Work.BRIEF),
    (_form(r"DETACH\s+PARTITION\b.*\bCONCURRENTLY"), SUE, Work.BRIEF),
    (_form(r"ATTACH\s+PARTITION"), SUE, Work.SCANS),
    (_form(r"SET\s+(?:LOGGED|UNLOGGED|TABLESPACE|ACCESS\s+METHOD)"), AE, Work.REWRITES),
    (_form(r"DROP\b|RENAME\b|DETACH\b|OWNER\b|ALTER\s+CONSTRAINT|REPLICA\s+IDENTITY|SET\s+SCHEMA"), AE, Work.BRIEF),
]
