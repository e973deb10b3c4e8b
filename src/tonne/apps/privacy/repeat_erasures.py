"""Repeats erasures after a restore: the backup may be older than they are."""

from collections.abc import Sequence

from tonne.apps.privacy.erase_person import erase_person
from tonne.apps.privacy.errors import PersonInUse
from tonne.apps.privacy.model import Erasure, Person, Search
from tonne.apps.privacy.store import list_values_any_account
from tonne.platform.db.database import Connection
from tonne.platform.process.progress import progress
from tonne.platform.values.context import Actor, Clock


async def find_again_any_account(connection: Connection, erasures: Sequence[Erasure]) -> list[Search]:
    """The persons of these erasures whose data is there again.

    All stored addresses and names are hashed and compared.
    """
    values = await list_values_any_account(connection)
    requested = {(each.salt, each.person_hash, each.organisation_id, each.mode) for each in erasures}
    hashes = {(salt, person_hash) for salt, person_hash, _, _ in requested}
    found = list[Search]()
    with progress("Comparing addresses and names", len(values)) as advance:
        for found_by, value in values:
            person = Person(found_by, value)
            own = {(salt, person.hash(salt)) for salt, _ in hashes} & hashes
            found += [
                Search(person, organisation_id, mode)
                for salt, person_hash, organisation_id, mode in requested
                if (salt, person_hash) in own
            ]
            advance(1)
    return list(dict.fromkeys(found))


async def repeat_erasures(
    connection: Connection, searches: Sequence[Search], *, actor: Actor, clock: Clock
) -> tuple[list[Erasure], list[PersonInUse]]:
    """The erasures that were made, and why others could not be made yet."""
    made, refused = list[Erasure](), list[PersonInUse]()
    for search in searches:
        try:
            made.append(await erase_person(connection, search, actor=actor, clock=clock))
        except PersonInUse as error:
            refused.append(error)
    return made, refused
