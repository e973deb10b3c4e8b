"""Splits the text of a SQL file into its statements."""

import re

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
