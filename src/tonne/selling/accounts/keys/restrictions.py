"""What an API key is restricted to, and the rule that no key creates a stronger one."""

import ipaddress
from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum
from typing import Any

from msgspec import Struct

from tonne.platform.http.client_address import Network
from tonne.platform.http.permissions import OF_ORGANISATION, PERMISSIONS, RouteGroup, granted, group_of
from tonne.platform.values.context import to_wire
from tonne.selling.accounts.errors import KeyRestrictionInvalid

MAX_NETWORKS = 50
MAX_ACCOUNTS = 100


class KeyRight(StrEnum):
    """What a key with full access may do only if this was allowed when it was created."""

    # Export and erase the data of persons. Live keys of the organisation's own accounts only.
    PERSONS = "persons"
    # Create, rotate and revoke keys. Keys of the organisation's own accounts only.
    API_KEYS = "api_keys"


class KeyRestrictions(Struct, frozen=True):
    """`permissions` and `account_ids` are None, and `networks` is empty, if the key is not restricted in that way."""

    permissions: tuple[str, ...] | None = None
    account_ids: tuple[str, ...] | None = None
    networks: tuple[Network, ...] = ()
    expires_at: datetime | None = None

    @property
    def rights(self) -> tuple[KeyRight, ...]:
        """The rights that the permissions include."""
        groups = {group_of(permission) for permission in self.permissions or ()}
        return tuple(right for right in KeyRight if RouteGroup(right) in groups)

    def audited(self) -> dict[str, Any]:
        """For the audit log, without what is not restricted."""
        given: dict[str, Any] = {
            "permissions": self.permissions,
            "account_ids": self.account_ids,
            "networks": [str(network) for network in self.networks] or None,
            "expires_at": None if self.expires_at is None else to_wire(self.expires_at),
        }
        return {name: value for name, value in given.items() if value is not None}


UNRESTRICTED = KeyRestrictions()


def check_restrictions(
    permissions: Iterable[str] | None,
    account_ids: Iterable[str] | None,
    networks: Iterable[str],
    expires_at: datetime | None,
    now: datetime,
) -> KeyRestrictions:
    """In a canonical form. Raises KeyRestrictionInvalid. Whether the accounts exist is not checked here."""
    accounts = None if account_ids is None else tuple(dict.fromkeys(account_ids))
    if accounts is not None and not 1 <= len(accounts) <= MAX_ACCOUNTS:
        raise KeyRestrictionInvalid(f"Name 1 to {MAX_ACCOUNTS} accounts, or none for all.", field="account_ids")
    if expires_at is not None and expires_at <= now:
        raise KeyRestrictionInvalid("The key would expire at once. Give a time in the future.", field="expires_at")
    return KeyRestrictions(_permissions(permissions, accounts), accounts, parse_key_networks(networks), expires_at)


def _permissions(names: Iterable[str] | None, accounts: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if names is None:
        return None if accounts is None else _of_accounts()
    chosen = set(names)
    if unknown := sorted(chosen - set(PERMISSIONS)):
        raise KeyRestrictionInvalid(
            f"There is no permission {unknown[0][:100]}. The permissions are {', '.join(PERMISSIONS)}.",
            field="permissions",
        )
    if not chosen:
        raise KeyRestrictionInvalid("Choose at least one permission.", field="permissions")
    if accounts is not None and (wide := [each for each in PERMISSIONS if each in chosen and _is_wide(each)]):
        raise KeyRestrictionInvalid(
            f"{wide[0]} concerns the whole organisation, so a key for some accounts cannot have it. Leave it out, or "
            "allow all accounts.",
            field="permissions",
        )
    implied = {each.replace(":write", ":read") for each in chosen if each.endswith(":write")}
    return tuple(each for each in PERMISSIONS if each in chosen - implied)


def _of_accounts() -> tuple[str, ...]:
    """Everything that concerns single accounts."""
    implied = {each.replace(":write", ":read") for each in PERMISSIONS if each.endswith(":write")}
    return tuple(each for each in PERMISSIONS if each not in implied and not _is_wide(each))


def _is_wide(permission: str) -> bool:
    return group_of(permission) in OF_ORGANISATION


def parse_key_networks(texts: Iterable[str]) -> tuple[Network, ...]:
    networks: dict[Network, None] = {}
    for text in texts:
        try:
            network: Network = ipaddress.ip_network(text.strip())
        except ValueError as error:
            raise KeyRestrictionInvalid(
                f"{text.strip()[:60]} is not a network. Use an address or a network such as 203.0.113.0/24 or "
                "2001:db8::/32.",
                field="networks",
            ) from error
        networks[network] = None
    if len(networks) > MAX_NETWORKS:
        raise KeyRestrictionInvalid(f"Name at most {MAX_NETWORKS} networks.", field="networks")
    return tuple(networks)


def effective_permissions(permissions: tuple[str, ...] | None, rights: tuple[KeyRight, ...]) -> frozenset[str]:
    """All that a key may do, rights included."""
    allowed = granted(permissions, rights)
    if KeyRight.PERSONS in rights:
        return allowed
    return frozenset(each for each in allowed if group_of(each) is not RouteGroup.PERSONS)


def excess(
    creator: KeyRestrictions, creator_rights: tuple[KeyRight, ...], new: KeyRestrictions, rights: tuple[KeyRight, ...]
) -> str | None:
    """What the new key would have that its creator does not have, for people; None if there is nothing."""
    allowed = effective_permissions(creator.permissions, creator_rights)
    requested = effective_permissions(new.permissions, rights)
    if missing := [each for each in PERMISSIONS if each in requested - allowed]:
        return f"the permission {missing[0]}"
    if creator.account_ids is not None and not set(new.account_ids or [""]) <= set(creator.account_ids):
        return "access to more accounts"
    if creator.networks and not (new.networks and all(_is_within(each, creator.networks) for each in new.networks)):
        return "access from more networks"
    if creator.expires_at is not None and (new.expires_at is None or new.expires_at > creator.expires_at):
        return f"a later expiry than {to_wire(creator.expires_at)}"
    return None


def _is_within(network: Network, allowed: Iterable[Network]) -> bool:
    return any(
        network.version == each.version and network.subnet_of(each)  # type: ignore[arg-type]
        for each in allowed
    )
