"""The client's own name of an order, which invoices print."""

from tests.money.invoices.billing import Billing
from tests.support.command import Operator
from tests.support.world import World
from tonne.money.invoices.model import client_reference
from tonne.platform.values.context import replace

HUGE = '{"amounts":[1e999,-1E-999],"reference":1e999,"order_id":"A-17"}'


async def test_it_is_a_field_of_the_order_and_never_read_from_metadata(billing: Billing, world: World) -> None:
    metadata = '{"reference":"PO 1","order_reference":"PO 2","external_id":"A-9"}'
    order = await billing.place_order(world.ours_live.scope, metadata=metadata)
    assert client_reference(order) == order.idempotency_key
    typed = replace(order, external_id="A-1")
    assert client_reference(typed) == order.idempotency_key, "a visitor may have typed it"
    verified = replace(typed, external_id_verified=True)
    assert client_reference(verified) == "A-1"
    assert client_reference(replace(verified, reference="PO 4711")) == "PO 4711"


async def test_an_order_with_huge_numbers_in_its_metadata_is_billed_and_shown(
    billing: Billing, world: World, operator: Operator
) -> None:
    order = await billing.place_order(world.ours_live.scope, metadata=HUGE)
    await billing.work()
    await billing.invoice(order)
    for words in (["order", "show", order.id], ["order", "show", order.id, "--json"], ["order", "list", "--csv"]):
        assert "1e999" in operator.does(*words), words
