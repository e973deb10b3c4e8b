"""Who did something, in words: entries of the audit log and timelines name actors as `key:key_…` or `user:usr_…`."""

from collections.abc import Iterable

from tonne.platform.db.database import Connection
from tonne.platform.values.context import ActorKind
from tonne.selling.accounts.directory import find_key_names
from tonne.selling.users.store import find_user_names

OPERATOR = "the operator"
_OTHERS = {
    ActorKind.SYSTEM: "the service",
    ActorKind.PAYER: "the customer",
    "link": "the customer, through an offset link",
}


async def name_actors(
    connection: Connection, organisation_id: str, actors: Iterable[str | None], *, for_operator: bool
) -> dict[str, str]:
    """By actor. Members do not see which of the operator's people did something, as in the API's audit log."""
    named = {actor: actor.partition(":")[::2] for actor in set(actors) if actor}
    keys = await find_key_names(connection, organisation_id, [name for kind, name in named.values() if kind == "key"])
    users = await find_user_names(
        connection, organisation_id, [name for kind, name in named.values() if kind == "user"]
    )
    words = {}
    for actor, (kind, name) in named.items():
        match kind:
            case ActorKind.CLI:
                words[actor] = f"{OPERATOR} ({name})" if for_operator else OPERATOR
            case ActorKind.KEY:
                words[actor] = f"the API key {keys.get(name, name)}"
            case ActorKind.USER:
                user = users.get(name)
                is_shown = user is not None and (user.is_member or for_operator)
                words[actor] = user.name if user is not None and is_shown else OPERATOR
            case _:
                words[actor] = _OTHERS.get(kind, actor)
    return words
