"""The numbered SQL files and what their headers say.

The first lines of a file may be:

    -- compatible_from: 26
    -- transaction: none

`compatible_from` is the oldest release that can run on the schema after this migration, by the number of its last
migration. `transaction: none` runs each statement in a transaction of its own, as CREATE INDEX CONCURRENTLY and batches
need; such a file starts again from its first statement after a failure, so each statement must be repeatable. There, a
statement below the comment `-- repeat until it changes no row` is one batch and is run until it changes nothing.
"""

import hashlib
import re
from functools import cache, cached_property
from importlib import resources

from msgspec import Struct

# What may contain a semicolon that ends no statement, and comments.
_TOKEN = re.compile(
    r"""
    (?P<comment>--[^\n]*|/\*.*?\*/)
  | (?P<quoted>'(?:[^']|'')*' | "(?:[^"]|"")*" | (?P<tag>\$(?:[A-Za-z_]\w*)?\$).*?(?P=tag))
  | (?P<end>;)
    """,
    re.VERBOSE | re.DOTALL,
)


class SqlStatement(Struct, frozen=True):
    """`text` has no comments outside quoted parts; `comments` are those before and inside the statement."""

    text: str
    comments: tuple[str, ...] = ()


def split_statements(sql: str) -> list[SqlStatement]:
    statements: list[SqlStatement] = []
    parts: list[str] = []
    comments: list[str] = []
    at = 0

    def finish() -> None:
        text = "".join(parts).strip()
        if text:
            statements.append(SqlStatement(text, tuple(comments)))
            comments.clear()
        parts.clear()

    for token in _TOKEN.finditer(sql):
        parts.append(sql[at : token.start()])
        at = token.end()
        if token["comment"]:
            comments.append(token["comment"].removeprefix("--").strip())
            parts.append(" ")
        elif token["end"]:
            finish()
        else:
            parts.append(token[0])
    parts.append(sql[at:])
    finish()
    return statements


REPEAT = "repeat until it changes no row"
_HEADER = re.compile(r"-- (compatible_from|transaction): (\w+)")


class Migration(Struct, frozen=True, dict=True):
    version: int
    name: str
    sql: str

    @cached_property
    def _header(self) -> dict[str, str]:
        header: dict[str, str] = {}
        for line in self.sql.splitlines():
            found = _HEADER.fullmatch(line)
            if found is None:
                break
            header[found[1]] = found[2]
        return header

    @property
    def states_compatibility(self) -> bool:
        return "compatible_from" in self._header

    @property
    def compatible_from(self) -> int:
        """The oldest release that can run on this schema, by the number of its last migration.

        Without the header, only releases that know the migration can run.
        """
        return int(self._header.get("compatible_from", self.version))

    @property
    def in_transaction(self) -> bool:
        return self._header.get("transaction") != "none"

    @cached_property
    def checksum(self) -> str:
        return hashlib.sha256(self.sql.encode()).hexdigest()

    @cached_property
    def statements(self) -> list[SqlStatement]:
        return split_statements(self.sql)


@cache
def _read_files() -> tuple[Migration, ...]:
    folder = resources.files("tonne.platform.db.schema") / "migrations"
    files = sorted((entry for entry in folder.iterdir() if entry.name.endswith(".sql")), key=lambda entry: entry.name)
    return tuple(
        Migration(int(file.name.split("_")[0]), file.name.removesuffix(".sql"), file.read_text(encoding="utf-8"))
        for file in files
    )


def all_migrations() -> list[Migration]:
    """In order. Read once per process: /health/ready asks for them at each call."""
    return list(_read_files())
