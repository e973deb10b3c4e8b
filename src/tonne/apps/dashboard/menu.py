"""The menus of the dashboard, in the order in which they are shown."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from tonne.platform.values.context import replace


class MenuEntry(Struct, frozen=True):
    name: str
    label: str
    # After the base of the organisation and mode, or of the operator and mode.
    path: str
    # Only people with this right see the entry.
    right: str = "view"


class MenuGroup(Struct, frozen=True):
    label: str
    entries: tuple[MenuEntry, ...]


ORGANISATION_MENU = (
    MenuGroup(
        "Overview",
        (
            MenuEntry("overview", "Overview", "/overview"),
            MenuEntry("buy", "Buy", "/buy", "money"),
            MenuEntry("orders", "Orders", "/orders"),
            MenuEntry("certificates", "Certificates", "/certificates"),
            MenuEntry("audit_packs", "Audit packs", "/audit-packs"),
        ),
    ),
    MenuGroup(
        "Customers",
        (
            MenuEntry("accounts", "Accounts", "/accounts"),
            MenuEntry("links", "Offset links", "/links"),
            MenuEntry("public_page", "Public page", "/public-page"),
        ),
    ),
    MenuGroup(
        "Money",
        (
            MenuEntry("invoices", "Invoices", "/invoices"),
            MenuEntry("documents", "Documents", "/documents"),
            MenuEntry("receipts", "Receipts", "/receipts"),
            MenuEntry("statement", "Statement", "/statement"),
        ),
    ),
    MenuGroup(
        "Developers",
        (
            MenuEntry("keys", "API keys", "/keys"),
            MenuEntry("webhooks", "Webhooks", "/webhooks"),
            MenuEntry("events", "Events", "/events"),
            MenuEntry("requests", "Requests", "/requests"),
        ),
    ),
    MenuGroup(
        "Settings",
        (
            MenuEntry("people", "People", "/people"),
            MenuEntry("tax", "Tax", "/tax", "money"),
            MenuEntry("audit", "Audit log", "/audit"),
        ),
    ),
)
OPERATOR_MENU: tuple[MenuGroup, ...] = (
    MenuGroup(
        "Today",
        (
            MenuEntry("today", "Today", "/today"),
            MenuEntry("orders", "Orders", "/orders"),
            MenuEntry("customers", "Customers", "/customers"),
            MenuEntry("persons", "Persons", "/persons"),
        ),
    ),
    MenuGroup(
        "Supply",
        (
            MenuEntry("retirements", "Retirement desk", "/retirements"),
            MenuEntry("supply", "Supply", "/supply"),
            MenuEntry("registries", "Registries", "/registries"),
            MenuEntry("catalogue", "Catalogue and prices", "/catalogue"),
        ),
    ),
    MenuGroup(
        "Money",
        (
            MenuEntry("money", "Money", "/money"),
            MenuEntry("documents", "Documents", "/documents"),
            MenuEntry("month_end", "Month end", "/month-end"),
        ),
    ),
    MenuGroup("Settings", (MenuEntry("books", "Books", "/books"),)),
    MenuGroup("System", (MenuEntry("jobs", "Jobs and queues", "/jobs"), MenuEntry("audit", "Audit log", "/audit"))),
)


def entries_for(menu: Sequence[MenuGroup], may: Callable[[str], bool]) -> list[MenuGroup]:
    """Without entries that the viewer may not open, and without groups that have no other."""
    seen = [replace(group, entries=tuple(each for each in group.entries if may(each.right))) for group in menu]
    return [group for group in seen if group.entries]
