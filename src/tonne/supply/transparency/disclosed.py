"""Which retirements the operator shows to everybody, so that credits that were sold twice are found."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tonne.platform.db.database import Connection
from tonne.platform.db.json_compression import decompress_json
from tonne.platform.values.context import Mode
from tonne_verify.openings import Opening
from tonne_verify.serials.spelling import registry_id

# Positions of a page: those without a disclosed retirement are left out of it.
PAGE_SIZE = 1024
ALL = registry_id("all")


def parse_registries(text: str) -> frozenset[str]:
    """Ids of the registries in a list with commas."""
    return frozenset(registry_id(each) for each in text.split(",") if each.strip())


def is_disclosed(facts: Mapping[str, Any], registries: frozenset[str]) -> bool:
    return ALL in registries or registry_id(str(facts["registry"])) in registries


READ_PAGE = """
SELECT log.origin, log.published_size, stated.position, stated.statement, stated.salt
FROM logs log
LEFT JOIN log_statements stated ON stated.log_id = log.id AND stated.kind = 'retirement' AND stated.position >= $3
                               AND stated.position < least($4, log.published_size)
WHERE log.mode = $1 AND log.generation = $2 ORDER BY stated.position
"""


async def read_page(
    connection: Connection, mode: Mode, generation: int, number: int, registries: frozenset[str]
) -> tuple[bytes, bool] | None:
    """The openings of a page as JSON lines, and whether it is complete; None if nothing is published that far."""
    first, end = number * PAGE_SIZE, (number + 1) * PAGE_SIZE
    rows = await connection.fetch(READ_PAGE, mode, generation, first, end)
    if not rows or rows[0]["published_size"] <= first:
        return None
    lines = []
    for row in rows:
        statement = None if row["statement"] is None else msgspec.json.decode(decompress_json(row["statement"]))
        if statement is not None and is_disclosed(statement["facts"], registries):
            opening = Opening(statement, row["salt"]).to_json()
            line = {"origin": row["origin"], "position": row["position"], **opening}
            lines.append(msgspec.json.encode(line) + b"\n")
    return b"".join(lines), rows[0]["published_size"] >= end
