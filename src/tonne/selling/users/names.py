"""Who did something, in words: the names behind stored actors."""

from collections.abc import Iterable

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Actor, ActorKind

FIND_USER_NAMES = "SELECT id, name FROM users WHERE id = ANY ($1::text[])"


async def name_actors(connection: Connection, actors: Iterable[str | None]) -> dict[str, str]:
    """The names of stored actors such as `user:usr_…` and `cli:ada@ops-1`, by actor. For operators only."""
    requested = sorted({actor for actor in actors if actor})
    users = [actor.partition(":")[2] for actor in requested if actor.startswith(f"{ActorKind.USER}:")]
    rows = await connection.fetch(FIND_USER_NAMES, users) if users else []
    names = {f"{ActorKind.USER}:{row['id']}": row["name"] for row in rows}
    return {actor: names.get(actor) or _as_text(actor) for actor in requested}


FIND_OPERATORS = "SELECT id FROM users WHERE id = ANY ($1::text[]) AND is_operator"


async def find_operators(connection: Connection, actors: Iterable[Actor]) -> frozenset[str]:
    """The ids of the users among the actors who run this service."""
    user_ids = {actor.name for actor in actors if actor.kind is ActorKind.USER}
    if not user_ids:
        return frozenset()
    return frozenset(row["id"] for row in await connection.fetch(FIND_OPERATORS, sorted(user_ids)))


def _as_text(actor: str) -> str:
    kind, _, name = actor.partition(":")
    if kind == ActorKind.SYSTEM:
        return f"Tonne ({name.replace('_', ' ')})"
    return f"{name} (command line)" if kind == ActorKind.CLI else name
