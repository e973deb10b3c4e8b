"""Which entry of the menu is marked as the current page."""

from collections.abc import Sequence

from tests.support.people import Person
from tonne.apps.dashboard.menu import MenuGroup


async def unmarked_entries(person: Person, base: str, menu: Sequence[MenuGroup]) -> list[str]:
    """Pages of the menu that do not mark their own entry, and no other."""
    paths = [entry.path for group in menu for entry in group.entries]
    faults = []
    for path in paths:
        answer = await person.get(f"{base}{path}")
        if answer.is_redirect:
            answer = await person.get(answer.headers["location"])
        if [each for each in paths if f'href="{base}{each}" aria-current="page"' in answer.text] != [path]:
            faults.append(path)
    return faults
