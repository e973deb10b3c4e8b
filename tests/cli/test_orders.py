"""Orders of all organisations from the command line."""

import pytest

from tests.support.api_client import ApiClient
from tests.support.command import Operator
from tests.support.world import World


@pytest.fixture
async def order_ids(api: ApiClient, world: World) -> dict[str, str]:
    ours = await api.order(idempotency_key="ours-1")
    theirs = await api.as_key(world.theirs_test.key).order(idempotency_key="theirs-1")
    cancelled = await api.order(idempotency_key="ours-2")
    assert (await api.post(f"/v1/orders/{cancelled['id']}/cancel", {})).status_code == 200
    return {"ours": ours["id"], "theirs": theirs["id"], "cancelled": cancelled["id"]}


def _ids(operator: Operator, *arguments: str) -> list[str]:
    return [line.split()[0] for line in operator.does("order", "list", *arguments).splitlines()[1:]]


def test_people_a5_orders_of_all_organisations_are_found(
    operator: Operator, world: World, order_ids: dict[str, str]
) -> None:
    ours, theirs, cancelled = order_ids["ours"], order_ids["theirs"], order_ids["cancelled"]
    assert _ids(operator) == [cancelled, theirs, ours], "newest first"
    assert _ids(operator, "--status", "cancelled") == [cancelled]
    assert _ids(operator, "--org", world.theirs_test.scope.organisation_id) == [theirs]
    assert _ids(operator, "--account", world.ours_test.scope.account_id) == [cancelled, ours]
    assert _ids(operator, "--reference", "theirs-1") == [theirs]
    assert _ids(operator, "--limit", "1") == [cancelled]
    assert operator.does("order", "list", "--mode", "live") == "No order matches."
    assert operator.does("order", "list", "--email", "maria@example.com") == "No order matches."
    assert operator.facts("order", "show", theirs)["status"] == "placed"
