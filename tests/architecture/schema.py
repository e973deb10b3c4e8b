"""The SQL files of the schema: one per area, in each a section per package."""

import re
from dataclasses import dataclass
from functools import cache

from tests.architecture.order import ORDER
from tests.architecture.source import PACKAGE

MIGRATIONS = PACKAGE / "platform" / "db" / "schema" / "migrations"
_HEAD = re.compile(r"^-- ([a-z_]+) -{20,}$", re.MULTILINE)
_TABLE = re.compile(r"^CREATE (?:UNLOGGED )?TABLE (\w+) \((.*?)\n\)", re.DOTALL | re.MULTILINE)
_REFERENCE = re.compile(r"^ALTER TABLE (\w+) ADD (FOREIGN KEY .*);$", re.MULTILINE)
_FUNCTION = re.compile(r"^CREATE FUNCTION (\w+)\(\) RETURNS trigger .*?AS \$\$(.*?)\$\$;", re.DOTALL | re.MULTILINE)
_TRIGGER = re.compile(
    r"^CREATE (?:CONSTRAINT )?TRIGGER (\w+)\s.*?\bON (\w+)\b.*?EXECUTE FUNCTION (\w+)\(\);", re.DOTALL | re.MULTILINE
)


@dataclass(frozen=True)
class Trigger:
    """`body` is the text of its function. `package` has it in its section: it may note changes of earlier tables."""

    name: str
    table: str
    body: str
    package: str


@cache
def schema() -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(MIGRATIONS.glob("*.sql")))


@cache
def tables() -> dict[str, str]:
    """The columns and constraints of every table, as text."""
    found = dict(_TABLE.findall(schema()))
    for table, reference in _REFERENCE.findall(schema()):
        found[table] += reference
    return found


def sections(area: str) -> dict[str, str]:
    """The SQL of each package of the area."""
    [path] = MIGRATIONS.glob(f"*_{area}.sql")
    _, *parts = _HEAD.split(path.read_text(encoding="utf-8"))
    return dict(zip(parts[::2], parts[1::2], strict=True))


@cache
def packages_of_tables() -> dict[str, str]:
    """The package in whose section each table is."""
    return {
        table: f"{area}/{package}"
        for area in ORDER
        for package, section in sections(area).items()
        for table, _ in _TABLE.findall(section)
    }


@cache
def triggers() -> tuple[Trigger, ...]:
    functions = dict(_FUNCTION.findall(schema()))
    return tuple(
        Trigger(name, table, functions[function], f"{area}/{package}")
        for area in ORDER
        for package, section in sections(area).items()
        for name, table, function in _TRIGGER.findall(section)
    )
