"""Makes the documents of copied events differ like those of real orders: amounts, ids, times and metadata."""

import random
import string
from collections.abc import Sequence

import msgspec

from bench.environment import Environment
from bench.tenants import MODE, Tenant
from tonne.platform.events.payload import decode_document, encode_document

_NAMES = ("Ada Keller", "Brightwater Ltd", "Søren Holm", "Łukasz Nowak", "Café Lumière", "O'Hara & Sons", "Yuki Tanaka")
_ID_LETTERS = "0123456789abcdefghjkmnpqrstvwxyz"
READ = "SELECT position, document FROM events WHERE organisation_id = $1 AND mode = $2"
WRITE = """
UPDATE events SET document = made.document
FROM unnest($3::bigint[], $4::bytea[]) AS made (position, document)
WHERE events.organisation_id = $1 AND events.mode = $2 AND events.position = made.position
"""


async def make_orders_differ(environment: Environment, tenants: Sequence[Tenant]) -> None:
    """Copies of one order compress and cache far better than a backlog does."""
    chance = random.Random(15)
    async with environment.connection() as connection:
        for tenant in tenants:
            rows = await connection.fetch(READ, tenant.scope.organisation_id, MODE)
            positions = [row["position"] for row in rows]
            documents = [encode_document(_vary(decode_document(row["document"]), chance)) for row in rows]
            await connection.execute(WRITE, tenant.scope.organisation_id, MODE, positions, documents)
        await connection.execute("VACUUM ANALYZE events")


def _vary(document: bytes, chance: random.Random) -> bytes:
    return msgspec.json.encode(_varied(msgspec.json.decode(document), chance))


def _varied(value: object, chance: random.Random, name: str = "") -> object:
    """The same structure, and values of the same length except for names."""
    if isinstance(value, dict):
        return {key: _varied(part, chance, key) for key, part in value.items()}
    if isinstance(value, list):
        return [_varied(part, chance, name) for part in value]
    if not isinstance(value, str):
        return value
    if name in {"id", "idempotency_key"} or name.endswith("_id"):
        prefix, separator, rest = value.rpartition("_")
        return prefix + separator + "".join(chance.choices(_ID_LETTERS, k=len(rest)))
    if name == "name":
        return chance.choice(_NAMES)
    return "".join(chance.choice(string.digits) if letter.isdigit() else letter for letter in value)
