"""What an API key may do: the groups of routes, and the permission that each route needs.

A permission is a group and an access, such as `orders:write`, which includes `orders:read`.
"""

from collections.abc import Collection
from enum import StrEnum
from functools import lru_cache


class RouteGroup(StrEnum):
    ORDERS = "orders"
    ESTIMATES = "estimates"
    CATALOGUE = "catalogue"
    INVOICES = "invoices"
    REFUNDS = "refunds"
    CHECKOUTS = "checkouts"
    CERTIFICATES = "certificates"
    RETIREMENTS = "retirements"
    WEBHOOKS = "webhooks"
    ANALYTICS = "analytics"
    ACCOUNT = "account"
    SUSTAINABILITY_PAGE = "sustainability_page"
    AUDIT_LOG = "audit_log"
    PERSONS = "persons"
    API_KEYS = "api_keys"
    TEST_HELPERS = "test_helpers"


# A route belongs to the group with the longest beginning of its path.
_PATHS: dict[str, RouteGroup] = {
    "/v1/orders": RouteGroup.ORDERS,
    "/v1/orders/{order_id}/invoice": RouteGroup.INVOICES,
    "/v1/orders/{order_id}/credit-notes": RouteGroup.INVOICES,
    "/v1/orders/{order_id}/refunds": RouteGroup.REFUNDS,
    "/v1/orders/{order_id}/certificate": RouteGroup.CERTIFICATES,
    "/v1/orders/{order_id}/certificate.json": RouteGroup.CERTIFICATES,
    "/v1/orders/{order_id}/certificates": RouteGroup.CERTIFICATES,
    "/v1/orders/{order_id}/credential.json": RouteGroup.CERTIFICATES,
    "/v1/orders/{order_id}/selective-credential": RouteGroup.CERTIFICATES,
    "/v1/orders/{order_id}/beneficiary": RouteGroup.CERTIFICATES,
    "/v1/quotes": RouteGroup.ORDERS,
    "/v1/estimates": RouteGroup.ESTIMATES,
    "/v1/emission-factors": RouteGroup.ESTIMATES,
    "/v1/bundles": RouteGroup.CATALOGUE,
    "/v1/projects": RouteGroup.CATALOGUE,
    "/v1/credit-notes": RouteGroup.INVOICES,
    "/v1/tax-profile": RouteGroup.INVOICES,
    "/v1/offset-links": RouteGroup.CHECKOUTS,
    "/v1/checkouts": RouteGroup.CHECKOUTS,
    "/v1/payments": RouteGroup.CHECKOUTS,
    "/v1/retirements": RouteGroup.RETIREMENTS,
    "/v1/webhooks": RouteGroup.WEBHOOKS,
    "/v1/events": RouteGroup.WEBHOOKS,
    "/v1/analytics": RouteGroup.ANALYTICS,
    "/v1/account": RouteGroup.ACCOUNT,
    "/v1/accounts": RouteGroup.ACCOUNT,
    "/v1/bundle-selections": RouteGroup.ACCOUNT,
    "/v1/sustainability-page": RouteGroup.SUSTAINABILITY_PAGE,
    "/v1/sustainability-pages": RouteGroup.SUSTAINABILITY_PAGE,
    "/v1/audit-log": RouteGroup.AUDIT_LOG,
    "/v1/persons": RouteGroup.PERSONS,
    "/v1/api-keys": RouteGroup.API_KEYS,
    "/v1/test-helpers": RouteGroup.TEST_HELPERS,
}
# They change nothing, although they are not GET.
_READING = {
    "/v1/orders/by-estimate/quote",
    "/v1/orders/by-mass/quote",
    "/v1/orders/by-value/quote",
    "/v1/persons/export",
}
_READ_ONLY = {
    *(RouteGroup.CATALOGUE, RouteGroup.INVOICES, RouteGroup.RETIREMENTS),
    RouteGroup.AUDIT_LOG,
}
_WRITE_ONLY = {RouteGroup.TEST_HELPERS}
# All permissions that exist, in the order in which they are shown.
PERMISSIONS = tuple(
    f"{group}:{access}"
    for group in RouteGroup
    for access in ("read", "write")
    if not (access == "write" and group in _READ_ONLY) and not (access == "read" and group in _WRITE_ONLY)
)
# Routes that show or change what belongs to the whole organisation, whatever the account of the request.
OF_ORGANISATION = frozenset(
    {
        *(RouteGroup.RETIREMENTS, RouteGroup.WEBHOOKS, RouteGroup.AUDIT_LOG),
        *(RouteGroup.PERSONS, RouteGroup.API_KEYS),
    }
)


def permission_of(method: str, path: str) -> str:
    """The permission that a route needs. Raises LookupError if its path belongs to no group."""
    start = path
    while start not in _PATHS:
        start = start.rpartition("/")[0]
        if not start:
            raise LookupError(
                f"{method} {path} belongs to no group of routes: add its path to platform/http/permissions.py"
            )
    access = "read" if method in {"GET", "HEAD"} or path in _READING else "write"
    return f"{_PATHS[start]}:{access}"


def group_of(permission: str) -> RouteGroup:
    return RouteGroup(permission.partition(":")[0])


def with_reading(permissions: Collection[str]) -> frozenset[str]:
    """Writing includes reading."""
    reading = {permission.replace(":write", ":read") for permission in permissions}
    return frozenset({*permissions, *(each for each in reading if each in PERMISSIONS)})


# Managing keys is a right that full keys do not have by themselves: a key that leaked could outlive its revocation.
# Persons are included, because their endpoints check the right on every request.
FULL_ACCESS = frozenset(each for each in PERMISSIONS if group_of(each) is not RouteGroup.API_KEYS)


@lru_cache(1024)
def granted(permissions: tuple[str, ...] | None, rights: tuple[str, ...]) -> frozenset[str]:
    """What a key may do, computed when it is loaded. `permissions` is None for a key with full access."""
    if permissions is not None:
        return with_reading(permissions)
    if RouteGroup.API_KEYS in rights:
        return frozenset(PERMISSIONS)
    return FULL_ACCESS
