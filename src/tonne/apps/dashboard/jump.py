"""Finding a page by typing: what the search field and the command palette (Ctrl K) list."""

from collections.abc import Iterable, Sequence

from msgspec import Struct

from tonne.apps.dashboard.menu import MenuGroup
from tonne.apps.lookup.find_orders import FoundOrder

# A person looks at a few lines at most, and more come from the lists.
MOST = 8
LONGEST = 255


class JumpTarget(Struct, frozen=True):
    kind: str
    label: str
    detail: str
    address: str


def read_term(text: str | None) -> str:
    return (text or "").strip()[:LONGEST]


def matching_pages(menu: Sequence[MenuGroup], base: str, term: str) -> list[JumpTarget]:
    """Pages of the menu with the term in their name; all of them without one."""
    return [
        JumpTarget("Page", entry.label, group.label, f"{base}{entry.path}")
        for group in menu
        for entry in group.entries
        if term.lower() in entry.label.lower()
    ]


def order_targets(orders: Iterable[FoundOrder], base: str) -> list[JumpTarget]:
    return [
        JumpTarget("Order", order.id, str(order.status).capitalize(), f"{base}/orders/{order.id}") for order in orders
    ]
