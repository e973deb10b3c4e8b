"""The groups of routes that restricted API keys are made of."""

import re
from pathlib import Path

import pytest

from tonne.apps.wiring.app import Services
from tonne.platform.http.permissions import (
    FULL_ACCESS,
    OF_ORGANISATION,
    PERMISSIONS,
    RouteGroup,
    granted,
    group_of,
    permission_of,
    with_reading,
)
from tonne.platform.http.route import Access

DOCS = Path(__file__).parents[3] / "docs" / "api-keys.md"


def test_every_route_of_the_api_needs_one_permission_and_every_permission_is_needed(services: Services) -> None:
    routes = [route for route in services.routes() if route.access is Access.API_KEY]
    assert {route.permission for route in routes} == set(PERMISSIONS)
    assert {group_of(permission) for permission in PERMISSIONS} == set(RouteGroup)
    others = [route for route in services.routes() if route.access is not Access.API_KEY]
    assert {route.permission for route in others} == {""}


def test_a_path_outside_the_groups_is_refused_when_the_route_is_made() -> None:
    with pytest.raises(LookupError):
        permission_of("GET", "/v1/new-things")


@pytest.mark.parametrize(
    ("method", "path", "permission"),
    [
        ("GET", "/v1/orders/{order_id}", "orders:read"),
        ("POST", "/v1/orders/by-mass", "orders:write"),
        ("POST", "/v1/orders/by-mass/quote", "orders:read"),
        ("GET", "/v1/orders/{order_id}/certificate.json", "certificates:read"),
        ("GET", "/v1/orders/{order_id}/credential.json", "certificates:read"),
        ("GET", "/v1/orders/{order_id}/selective-credential", "certificates:read"),
        ("POST", "/v1/orders/{order_id}/refunds", "refunds:write"),
        ("GET", "/v1/events/{event_id}", "webhooks:read"),
        ("POST", "/v1/persons/export", "persons:read"),
        ("POST", "/v1/persons/erase", "persons:write"),
        ("DELETE", "/v1/api-keys/{api_key_id}", "api_keys:write"),
    ],
)
def test_the_permission_of_a_route(method: str, path: str, permission: str) -> None:
    assert permission_of(method, path) == permission


def test_writing_includes_reading_and_full_keys_cannot_manage_keys() -> None:
    assert with_reading(["orders:write"]) == {"orders:write", "orders:read"}
    assert with_reading(["test_helpers:write"]) == {"test_helpers:write"}
    assert granted(None, ()) == FULL_ACCESS == set(PERMISSIONS) - {"api_keys:read", "api_keys:write"}
    assert granted(None, ("api_keys",)) == set(PERMISSIONS)
    assert granted(("catalogue:read",), ()) == {"catalogue:read"}


def test_the_documentation_lists_the_permissions() -> None:
    rows = re.findall(r"^\| `(\w+)` \| ((?:read|write)(?:, write)?) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    assert [f"{group}:{access}" for group, text in rows for access in text.split(", ")] == list(PERMISSIONS)
    wide = re.search(r"^((?:`\w+`(?:, | and ))+`\w+`) concern the whole organisation", DOCS.read_text(), re.MULTILINE)
    assert wide is not None
    assert set(re.findall(r"`(\w+)`", wide[1])) == OF_ORGANISATION
