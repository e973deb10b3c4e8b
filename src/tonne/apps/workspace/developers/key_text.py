"""What an API key may do, in words for people."""

from datetime import datetime

from msgspec import Struct

from tonne.platform.http.permissions import PERMISSIONS, RouteGroup, group_of, with_reading
from tonne.platform.values.context import ActorKind, Mode
from tonne.selling.accounts.keys.restrictions import KeyRight
from tonne.selling.accounts.model import ApiKey

# The label and the explanation of each group, in the order in which they are shown.
GROUPS: dict[RouteGroup, tuple[str, str]] = {
    RouteGroup.ORDERS: ("Orders", "Quote, place, read and cancel orders."),
    RouteGroup.ESTIMATES: ("Estimates", "Emission estimates that orders can offset."),
    RouteGroup.CATALOGUE: ("Catalogue", "Bundles, projects and prices."),
    RouteGroup.INVOICES: ("Invoices", "Invoices, credit notes and the tax profile."),
    RouteGroup.REFUNDS: ("Refunds", "Read and make refunds of orders."),
    RouteGroup.CHECKOUTS: ("Offset links and checkouts", "Payment pages, and what customers paid there."),
    RouteGroup.CERTIFICATES: ("Certificates", "Download certificates; with write, correct the name on them."),
    RouteGroup.RETIREMENTS: ("Retirements", "Retirements with serial numbers, of all accounts."),
    RouteGroup.WEBHOOKS: ("Webhooks and events", "Receivers, their secrets and the event log, of all accounts."),
    RouteGroup.ANALYTICS: ("Analytics", "Totals of orders and numbers of estimates."),
    RouteGroup.ACCOUNT: ("Accounts", "Names and settings of accounts; with write, create client accounts."),
    RouteGroup.SUSTAINABILITY_PAGE: ("Public page", "What the public Sustainability page shows."),
    RouteGroup.AUDIT_LOG: ("Audit log", "Who changed what, in all accounts."),
    RouteGroup.PERSONS: ("Data of persons", "With read, export what is held about a person; with write, erase it."),
    RouteGroup.API_KEYS: ("API keys", "Create, rotate and revoke keys that have no more rights than this one."),
    RouteGroup.TEST_HELPERS: ("Test helpers", "Move test orders through their life by hand."),
}
_ACCESS = {"read": "Read", "write": "Read and write"}
# Groups in which the key of one mode can do nothing.
_ABSENT = {Mode.LIVE: {RouteGroup.TEST_HELPERS}, Mode.TEST: {RouteGroup.PERSONS}}


class GroupChoice(Struct, frozen=True):
    """One line of the form: the group, and what can be chosen, by value."""

    group: RouteGroup
    label: str
    explanation: str
    accesses: dict[str, str]


def group_choices(mode: Mode) -> list[GroupChoice]:
    found = []
    for group, (label, explanation) in GROUPS.items():
        if group in _ABSENT[mode]:
            continue
        names = [each.partition(":")[2] for each in PERMISSIONS if group_of(each) is group]
        accesses = {"": "No access"} | {name: _ACCESS[name] for name in names}
        if names == ["write"]:
            accesses["write"] = "Allowed"
        found.append(GroupChoice(group, label, explanation, accesses))
    return found


def access_text(key: ApiKey) -> list[str]:
    """Such as `Orders: read and write`."""
    permissions = key.restrictions.permissions
    if permissions is None:
        return ["Everything", *(GROUPS[RouteGroup(right)][0] for right in key.rights)]
    allowed = with_reading(permissions)
    lines = []
    for group, (label, _) in GROUPS.items():
        names = [access for access in ("read", "write") if f"{group}:{access}" in allowed]
        if names:
            lines.append(f"{label}: {' and '.join(names)}")
    return lines


def short_access(key: ApiKey) -> str:
    """In one line, for the list of keys."""
    permissions = key.restrictions.permissions
    if permissions is None:
        return "Everything" if KeyRight.API_KEYS not in key.rights else "Everything, and API keys"
    if all(each.endswith(":read") for each in permissions):
        return f"Read only: {_labels(permissions)}"
    return _labels(permissions)


def _labels(permissions: tuple[str, ...]) -> str:
    labels = [GROUPS[group_of(each)][0] for each in permissions]
    return ", ".join(labels) if len(labels) <= 3 else f"{', '.join(labels[:2])} and {len(labels) - 2} more"


def state_of(key: ApiKey, now: datetime) -> tuple[str, str]:
    """The word for the state of a key, and the class of its badge."""
    if key.revoked_at is not None:
        return "Revoked", "bad"
    if key.has_ended(now):
        return "Expired", "bad"
    if key.replaced_by is not None:
        return "Rotated", "warn"
    return "Works", ""


def creator_of(key: ApiKey, members: dict[str, str], keys: dict[str, str]) -> str:
    """Who created a key; `members` and `keys` are names by id."""
    kind, _, name = (key.created_by or "").partition(":")
    if kind == ActorKind.USER:
        return members.get(name, "A former member")
    if kind == ActorKind.KEY:
        return f"API key “{keys[name]}”" if name in keys else "An API key"
    return "The operator"
