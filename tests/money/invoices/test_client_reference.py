"""The client's own name of an order, which its metadata may hold."""

import pytest

from tests.money.invoices.billing import Billing
from tests.support.command import Operator
from tests.support.world import World
from tonne.money.invoices.model import client_reference

HUGE = '{"amounts":[1e999,-1E-999],"reference":1e999,"order_id":"A-17"}'


@pytest.mark.parametrize(
    ("metadata", "reference"),
    [
        ('{"reference":"  PO  4711 "}', "PO 4711"),
        ('{"order_number":4711}', "4711"),
        ('{"reference":true,"order_id":" "}', "key-1"),
        ('{"reference":["A"],"order_id":{"b":1}}', "key-1"),
        (HUGE, "A-17"),
        (f'{{"reference":{"1" * 5_000}}}', "key-1"),
    ],
)
def test_it_is_text_or_a_whole_number(metadata: str, reference: str) -> None:
    assert client_reference(metadata, "key-1") == reference


async def test_an_order_with_huge_numbers_in_its_metadata_is_billed_and_shown(
    billing: Billing, world: World, operator: Operator
) -> None:
    order = await billing.place_order(world.ours_live.scope, metadata=HUGE)
    await billing.work()
    await billing.invoice(order)
    for words in (["order", "show", order.id], ["order", "show", order.id, "--json"], ["order", "list", "--csv"]):
        assert "1e999" in operator.does(*words), words
