"""Orders of all organisations from the command line."""

import json

import msgspec
import pytest

from tests.support.api_client import ApiClient
from tests.support.command import Operator
from tests.support.world import SELLER, TESTER, World
from tonne.apps.wiring.app import Services
from tonne.channels.webhooks.model import WebhookRequest
from tonne.channels.webhooks.register import register_webhook
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """Live invoices are issued."""
    return msgspec.structs.replace(settings, **SELLER)


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
    newest = operator.runs("order", "list", "--limit", "1")
    assert (cancelled in newest.stdout, theirs in newest.stdout) == (True, False)
    assert newest.stderr.startswith("There are more")
    assert operator.does("order", "list", "--mode", "live") == "No order matches."
    assert operator.does("order", "list", "--email", "maria@example.com") == "No order matches."
    assert operator.facts("order", "show", theirs)["status"] == "placed"


async def test_people_e_an_order_is_found_by_any_of_its_names(
    operator: Operator, services: Services, api: ApiClient, world: World
) -> None:
    selection = [{"bundle_id": world.bundles_live["forest-mix"]}]
    live = api.as_key(world.ours_live.key)
    order = await live.order(idempotency_key="po-17", bundle_selection=selection, metadata={"project": "Headquarters"})
    await live.order(bundle_selection=selection)
    await services.issue_invoices.run_once()
    async with services.database.connection() as connection:
        [(reference, invoice_id)] = await connection.fetch(
            "SELECT invoices.reference, invoices.id FROM invoices JOIN invoice_orders ON invoice_id = invoices.id "
            "WHERE order_id = $1",
            order["id"],
        )
    for term in (order["id"], "po-17", reference, reference.lower(), invoice_id):
        assert _ids(operator, term) == [order["id"]], term
    assert _ids(operator, "--metadata", "headquarters") == [order["id"]]
    assert _ids(operator, "--payment-state", "paid", order["id"]) == []
    assert _ids(operator, "--until", "2020-01-01") == []
    assert len(_ids(operator, "--since", "2020-01-01")) == 2
    assert _ids(operator, "headquarters") == [order["id"]], "the client's own reference"
    assert _ids(operator, "headquarters", "--reference", "po-17") == [order["id"]]
    assert _ids(operator, "headquarters", "--mode", "test") == []
    assert operator.does("order", "list", "nothing-like-it") == "No order matches."
    assert "tonne org list" in operator.is_refused("order", "list", "--org", "org_nope")
    assert "tonne account list" in operator.is_refused("order", "list", "--account", "acc_nope")


async def test_people_a5_show_tells_the_life_of_an_order(
    operator: Operator, services: Services, api: ApiClient, world: World
) -> None:
    operator.does("org", "add-admin", world.ours_live.scope.organisation_id, "ada@ours.test")
    selection = [{"bundle_id": world.bundles_live["forest-mix"]}]
    live = api.as_key(world.ours_live.key)
    async with services.database.transaction() as tx:
        webhook, _ = await register_webhook(
            tx,
            world.ours_live.scope,
            WebhookRequest("https://1.1.1.1/hook"),
            box=services.box,
            by=TESTER.now(),
        )
    order = await live.order(bundle_selection=selection)
    for job in (services.issue_invoices, services.render_documents, services.follow_up_invoices):
        await job.run_once()
    shown = json.loads(operator.does("order", "show", order["id"], "--json"))
    assert (shown["status"], shown["payment_state"], shown["account_name"]) == ("placed", "unpaid", "account live")
    assert shown["waits_for"].startswith("the payment of invoice TN-LIVE-")
    assert shown["next_by"] == "the client"
    reference = shown["invoice"]
    operator.does("invoice", "settle", reference, "--note", "cheque 17")
    await services.allocate_orders.run_once()
    timeline = json.loads(operator.does("order", "show", order["id"], "--json"))["timeline"]
    told = [(each["kind"], each["text"]) for each in timeline]
    for kind, text in (
        ("order", "1 t ordered"),
        ("event", "order.placed"),
        ("invoice", f"{reference} over "),
        ("invoice", f"{reference} mailed"),
        ("mail", "to ada@ours.test queued"),
        ("audit", "note: cheque 17"),
        ("invoice", f"{reference} paid"),
        ("event", "order.paid"),
        ("parcel", "opened, now supplies "),
        ("event", "order.retiring"),
        ("webhook", "order.paid to https://1.1.1.1/hook waits"),
    ):
        assert any(each == kind and text in said for each, said in told), (kind, text, told)
    assert timeline[0]["actor"] == f"key:{world.ours_live.key_id}"
    done = [each for each in timeline if not each["is_planned"]]
    assert done == sorted(done, key=lambda each: str(each["at"]))
    assert timeline[-1]["is_planned"], "what is planned comes last"
    assert any(each["subject_id"] == webhook.id for each in timeline)
    assert "order.retiring" in operator.does("order", "show", order["id"])
    assert "tonne order list" in operator.is_refused("order", "show", "ord_nope")


async def test_charges_are_listed_and_shown(
    operator: Operator, services: Services, api: ApiClient, world: World
) -> None:
    account_id = world.ours_test.scope.account_id
    operator.does("card", "set", account_id, "--method", "4000000000000002")
    operator.does("account", "update", account_id, "--payment-method", "card")
    services.directory.forget_terms(world.ours_test.scope)
    order = await api.order()
    await services.charge_cards[Mode.TEST].run_once()
    [charge] = [json.loads(line) for line in operator.does("charge", "list", "--json").splitlines()]
    assert (charge["order_id"], charge["status"], charge["currency"]) == (order["id"], "failed", "EUR")
    assert operator.facts("charge", "show", charge["id"])["status"] == "failed"
    assert operator.does("charge", "list", "--status", "captured") == "No charge matches."
    assert charge["id"] in operator.does("charge", "list", "--order", order["id"])
    assert _ids(operator, charge["id"]) == [order["id"]]
    assert "tonne charge list" in operator.is_refused("charge", "show", "chg_nope")
    texts = [e["text"] for e in json.loads(operator.does("order", "show", order["id"], "--json"))["timeline"]]
    assert any(text.startswith("attempt 1 to charge ") for text in texts)
    assert any("failed (" in text for text in texts)


async def test_the_timeline_of_a_test_order_names_no_missing_address(
    operator: Operator, api: ApiClient, world: World
) -> None:
    order = await api.order(bundle_selection=[{"bundle_id": world.bundles_test["forest-mix"]}])
    for step in ("settle-invoice", "complete"):
        answer = await api.post(f"/v1/test-helpers/orders/{order['id']}/{step}", {})
        assert answer.status_code == 200, answer.text
    timeline = json.loads(operator.does("order", "show", order["id"], "--json"))["timeline"]
    retired = [each["text"] for each in timeline if each["text"].startswith("retired on ")]
    assert retired
    assert not any("None" in text for text in retired)


@pytest.mark.parametrize(
    ("card", "waits_for"),
    [
        ("4000002760003184", "the payer's confirmation of the payment at the bank, until "),
        ("4000000000009995", "another card (`tonne card link "),
    ],
    ids=["confirm", "declined"],
)
async def test_order_show_says_what_the_payer_has_to_do(
    operator: Operator, services: Services, api: ApiClient, world: World, *, card: str, waits_for: str
) -> None:
    account_id = world.ours_test.scope.account_id
    operator.does("card", "set", account_id, "--method", card)
    operator.does("account", "update", account_id, "--payment-method", "card")
    services.directory.forget_terms(world.ours_test.scope)
    order = await api.order()
    await services.charge_cards[Mode.TEST].run_once()
    facts = operator.facts("order", "show", order["id"])
    assert facts["waits for"].startswith(waits_for)
    assert facts["next step by"] == "the client"
    operator.does("order", "cancel", order["id"], "--reason", "x")
    assert operator.facts("order", "show", order["id"])["cancellation reason"] == "requested_by_operator"
