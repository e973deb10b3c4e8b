"""After an erasure nothing names the person, and everything else is as it was."""

import json
from typing import Any

import pytest

from tests.apps.privacy.everywhere import ISSUED, columns_with, read_sums
from tests.apps.privacy.scene import EMAIL, NAME, Persons
from tests.support.world import TESTER
from tonne.apps.privacy.model import PersonInUse
from tonne.platform.values.context import replace
from tonne.selling.orders.buyer import BuyerDetails, find_buyer, save_buyer
from tonne.selling.orders.totals.fold_totals import FoldTotals
from tonne.selling.orders.totals.metadata_totals import CountMetadata, set_keys

# Whatever is erased is in these columns before.
BEFORE = {
    "orders.email",
    "orders.beneficiary",
    "orders.wire_document",
    "events.document",
    "checkouts.email",
    "checkouts.beneficiary_name",
    "certificates.record",
    "log_statements.names",
    "mails.recipients",
    "mails.message",
}


async def test_a_customer_is_erased_everywhere_and_all_sums_stay(persons: Persons) -> None:
    order_id = await persons.buys()
    other_id = await persons.buys("bob@example.com", "Bob Weber")
    assert await columns_with(persons.database, EMAIL, NAME) == BEFORE | ISSUED
    sums, others = await read_sums(persons.database), await columns_with(persons.database, "bob@example.com")

    tag = (await persons.api.get(f"/v1/orders/{order_id}")).headers["etag"]
    made = await persons.erase(EMAIL.upper())
    assert made.counts == {
        "orders": 1,
        "events": 5,
        "certificates": 1,
        "checkouts": 1,
        "estimates": 0,
        "mails": 2,
        "refunds": 0,
        "webhook_answers": 0,
    }
    assert await columns_with(persons.database, EMAIL, NAME) == ISSUED
    assert await columns_with(persons.database, "bob@example.com") == others, "another person"
    after = await read_sums(persons.database)
    assert after == sums
    await persons.check_invariants()
    # Also for a client that has the order with the name.
    shown = (await persons.api.get(f"/v1/orders/{order_id}", If_None_Match=tag)).json()
    assert (shown["email"], shown["beneficiary"]) == ("erased", {"name": "erased"})
    assert (await persons.api.get(f"/v1/orders/{other_id}")).json()["email"] == "bob@example.com"
    certificate = (await persons.api.get(f"/v1/orders/{order_id}/certificate.json")).json()
    assert (certificate["beneficiary"], certificate["state"]) == ("erased", "valid")
    assert certificate["name_erased_on"] == made.started_at.date().isoformat()


async def test_events_are_rewritten_and_a_new_one_reports_it(persons: Persons) -> None:
    order_id = await persons.buys()
    before = (await persons.api.get("/v1/events?limit=100")).json()["data"]
    await persons.erase()
    after = (await persons.api.get("/v1/events?limit=100")).json()["data"]
    assert after[0]["event_type"] == "order.person_erased"
    assert after[0]["data"]["order"] == (await persons.api.get(f"/v1/orders/{order_id}")).json()
    for old, new in zip(before, after[1:], strict=True):
        assert new["data"]["order"]["email"] == "erased"
        assert new["data"]["order"]["beneficiary"] == {"name": "erased"}
        old["data"]["order"] |= {"email": "erased", "beneficiary": {"name": "erased"}}
        assert new == old, "nothing else changes"


async def test_repeating_an_erasure_changes_nothing(persons: Persons) -> None:
    await persons.buys()
    await persons.erase()
    events = await persons.fetchval("SELECT count(*) FROM events")
    again = await persons.erase()
    assert set(again.counts.values()) == {0}
    assert await persons.fetchval("SELECT count(*) FROM events") == events


async def test_an_interrupted_erasure_is_continued(persons: Persons) -> None:
    for _ in range(3):
        await persons.buys()
    await persons.execute(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'lost'; END $$"
    )
    last = await persons.fetchval("SELECT max(id) FROM orders")
    await persons.execute(
        f"CREATE TRIGGER fail BEFORE UPDATE ON orders FOR EACH ROW WHEN (OLD.id = '{last}') EXECUTE FUNCTION fail()"
    )
    with pytest.raises(Exception, match="lost"):
        await persons.erase()
    assert await persons.fetchval("SELECT count(*) FROM orders WHERE email = 'erased'") == 2
    [unfinished] = await persons.fetch("SELECT id, finished_at FROM erasures")
    assert unfinished["finished_at"] is None

    await persons.execute("DROP TRIGGER fail ON orders")
    made = await persons.erase()
    assert (made.id, made.counts["orders"]) == (unfinished["id"], 1)
    assert await columns_with(persons.database, EMAIL, NAME) == ISSUED
    await persons.check_invariants()


async def test_erased_by_name_the_address_of_the_payer_stays(persons: Persons) -> None:
    """A present: somebody else paid."""
    order_id = await persons.buys("bob@example.com", NAME)
    await persons.erase(NAME.lower())
    shown = (await persons.api.get(f"/v1/orders/{order_id}")).json()
    assert (shown["email"], shown["beneficiary"]["name"]) == ("bob@example.com", "erased")
    assert await columns_with(persons.database, NAME) == set()
    await persons.check_invariants()


async def test_the_name_of_an_organisation_stays(persons: Persons) -> None:
    order = await persons.api.order(beneficiary={"name": "Keller GmbH"}, metadata={"buyer": EMAIL})
    await persons.work()
    await persons.erase()
    shown = (await persons.api.get(f"/v1/orders/{order['id']}")).json()
    assert shown["beneficiary"] == {"name": "Keller GmbH"}
    assert shown["metadata"] == {"buyer": "erased"}
    await persons.check_invariants()


async def test_what_clients_wrote_is_erased(persons: Persons) -> None:
    """In metadata, references and descriptions, also as a part of a longer text and with escapes."""
    api = persons.api
    estimate = await api.post(
        "/v1/estimates",
        {"mass": {"amount": "1", "unit": "t"}, "description": f"Flight of {NAME}", "metadata": {"mail": EMAIL}},
    )
    flight = await api.post(
        "/v1/estimates/flight",
        {
            "route": {"amount": "1000", "unit": "km"},
            "name": f"Flight of {NAME}",
            "metadata": {"mail": EMAIL},
            "idempotency_key": EMAIL,
        },
    )
    body = (
        '{"estimate_id": "%s", "idempotency_key": "order of ada.keller@example.com", "metadata": '
        '{"n": 1.50, "ada.keller@example.com": "Zo\\u00eb K\\u00f6hler, <Ada.Keller@example.com>",'
        ' "other": "xada.keller@example.com ada.keller@example.com.au"}, '
        '"beneficiary": {"name": "Zo\\u00eb K\\u00f6hler", "kind": "person"}}'
    )
    raw = (body % estimate.json()["id"]).encode()
    placed = await api.post_raw("/v1/orders/by-estimate", raw)
    assert placed.status_code == 201, placed.text
    await persons.work()
    await persons.erase()
    shown = (await api.get(f"/v1/orders/{placed.json()['id']}")).text
    assert '"n": 1.50' in shown, "the rest keeps its bytes"
    metadata = json.loads(shown)["metadata"]
    assert metadata == {
        "n": 1.5,
        "erased": "Zoë Köhler, <erased>",
        "other": "xada.keller@example.com ada.keller@example.com.au",
    }, "other addresses stay"
    assert json.loads(shown)["idempotency_key"] == f"erased {placed.json()['id']}"
    # The invoice names the client's reference, and is kept as the law demands.
    kept = {"tax_documents.record", "invoice_orders.reference"}
    assert await columns_with(persons.database, "<Ada.Keller", "order of ada", '"ada.keller@example.com"') == kept

    await persons.erase("zoë köhler")
    assert await columns_with(persons.database, "Zoë Köhler", "Zo\\u00eb") == set()
    await persons.erase(NAME)
    assert (await api.get(f"/v1/estimates/{estimate.json()['id']}")).json()["description"] == "Flight of erased"
    calculated = (await api.get(f"/v1/estimates/flight/{flight.json()['id']}")).json()
    assert (calculated["name"], calculated["metadata"]) == ("Flight of erased", {"mail": "erased"})
    assert calculated["request"] | {"route": None} == {
        "route": None,
        "name": "Flight of erased",
        "metadata": {"mail": "erased"},
        "idempotency_key": "erased",
    }
    assert calculated["mass"] == flight.json()["mass"]
    repeat = await api.post_raw("/v1/orders/by-estimate", raw.replace(b"order of ada.keller@example.com", b"other"))
    assert repeat.status_code == 201
    await persons.check_invariants()


async def test_sums_by_metadata_forget_the_person(persons: Persons) -> None:
    scope = persons.world.ours_test.scope
    async with persons.database.transaction() as tx:
        await set_keys(tx, scope, ["mail"], by=TESTER.now())
    await persons.run_jobs(CountMetadata(persons.database))
    await persons.api.order(metadata={"mail": EMAIL})
    await persons.run_jobs(FoldTotals(persons.database))
    # Its later changes are not folded when the person is erased.
    await persons.work()
    assert "metadata_totals.value" in await columns_with(persons.database, EMAIL)
    await persons.erase()
    for _ in range(2):
        assert await columns_with(persons.database, EMAIL) == set()
        await persons.check_invariants()
        await persons.run_jobs(FoldTotals(persons.database))
    assert await persons.fetchval("SELECT sum(orders) FROM metadata_totals WHERE value = 'erased'") == 1


async def test_former_names_and_addresses_are_found(persons: Persons) -> None:
    """A corrected address or name is still in events, mails and replaced certificates."""
    order_id = await persons.buys("ada.kelller@example.com", "Ada Kelller")
    order = f"/v1/orders/{order_id}/beneficiary"
    body = {"name": NAME, "kind": "person", "reason": "It was misspelt: Ada Kelller."}
    assert (await persons.api.http.put(order, json=body, headers=persons.api._headers({}))).status_code == 200
    await persons.work()
    await persons.erase("Ada Kelller")
    assert await columns_with(persons.database, "ada kelller", NAME) == {"audit_log.details"}, "reasons are not erased"
    assert await persons.fetchval("SELECT count(*) FROM certificates") == 2
    await persons.check_invariants()


async def test_a_person_with_open_business_is_not_erased(persons: Persons) -> None:
    address = await persons.shopper.begin(await persons.link(), email=EMAIL, name_on_certificate=NAME)
    with pytest.raises(PersonInUse, match=r"Checkout chk_\w+ is open\."):
        await persons.erase()
    await persons.shopper.pay(address)
    with pytest.raises(PersonInUse, match=r"Order ord_\w+ is paid\."):
        await persons.erase()
    with pytest.raises(PersonInUse, match=r"The document of order ord_\w+ is not issued yet\."):
        await persons.erase()
    await persons.run_jobs(persons.services.allocate_orders, persons.services.retire_units)
    assert await persons.fetchval("SELECT status FROM orders") == "complete"
    with pytest.raises(PersonInUse, match=r"The certificate of order ord_\w+ is not mailed yet\."):
        await persons.erase()
    await persons.work()
    await persons.execute("UPDATE mails SET held_reason = NULL, next_attempt_at = now() - interval '1 s'")
    with pytest.raises(PersonInUse, match=r"Mail mail_\w+ is not sent yet\."):
        await persons.erase()
    assert await persons.fetchval("SELECT count(*) FROM erasures") == 0
    await persons.work()
    organisation_id = persons.world.ours_test.scope.organisation_id
    await persons.execute(
        "INSERT INTO organisation_admins (organisation_id, email, created_at) VALUES ($1, $2, now())",
        organisation_id,
        EMAIL,
    )
    with pytest.raises(PersonInUse, match=f"tonne org remove-admin {organisation_id} {EMAIL}"):
        await persons.erase()
    await persons.execute("DELETE FROM organisation_admins")
    await persons.erase()
    assert await columns_with(persons.database, EMAIL, NAME) == ISSUED


async def test_a_name_that_was_public_leaves_the_public_pages(persons: Persons) -> None:
    order_id = await persons.buys(public=True)
    assert (await persons.api.get(f"/v1/orders/{order_id}")).json()["public_certificate_url"] is not None
    await persons.erase()
    assert (await persons.api.get(f"/v1/orders/{order_id}")).json()["public_certificate_url"] is None
    assert await persons.fetchval("SELECT is_public FROM certificates") is False


async def test_another_organisation_keeps_its_data(persons: Persons) -> None:
    await persons.buys()
    made = await persons.erase(EMAIL, persons.world.theirs_test.scope.organisation_id)
    assert set(made.counts.values()) == {0}
    assert await columns_with(persons.database, EMAIL) != set()


async def test_the_audit_log_records_it_without_the_data(persons: Persons) -> None:
    order_id = await persons.buys()
    made = await persons.erase()
    entries = await persons.fetch("SELECT action, subject_id, details FROM audit_log WHERE action LIKE '%person%'")
    assert [(entry["action"], entry["subject_id"]) for entry in entries] == [
        ("order.person_erased", order_id),
        ("person.erased", made.id),
    ]
    details = json.loads(entries[1]["details"])
    assert details["person_hash"] == made.person_hash.hex()
    assert (details["orders"], details["found_by"]) == (1, "email")


async def test_every_recipient_of_a_mail_can_be_erased(persons: Persons) -> None:
    """The content is erased with the first of them."""
    other = "otto@example.com"
    await persons.buys()
    await persons.work()
    await persons.execute("UPDATE mails SET recipients = recipients || $1::text", other)
    await persons.erase()
    assert await columns_with(persons.database, other) == {"mails.recipients"}
    await persons.erase(other)
    assert await columns_with(persons.database, other) == set()


async def test_audit_packs_of_the_organisation_are_deleted(persons: Persons) -> None:
    await persons.buys()
    async with persons.database.transaction() as tx:
        await tx.execute(_READY_PACKS)
    await persons.erase(EMAIL)
    kept = {(row["organisation_id"], row["mode"]) for row in await persons.fetch("SELECT * FROM audit_packs")}
    scope = persons.world.ours_test.scope
    assert (scope.organisation_id, scope.mode) not in kept
    assert {(scope.organisation_id, "live"), (persons.world.theirs_test.scope.organisation_id, "test")} <= kept


# One per organisation and mode.
_READY_PACKS = """
INSERT INTO audit_packs (organisation_id, mode, id, first_day, last_day, status, requested_by, created_at, expires_at)
SELECT organisation_id, mode, 'pck_' || row_number() OVER (), now(), now(), 'ready', 'user:usr_1', now(), now()
FROM organisation_modes
"""


async def test_what_the_buyer_stated_is_erased_with_the_payer_and_a_present_is_not(persons: Persons) -> None:
    """Bob pays, and the certificate is in Ada's name."""
    orders = [await persons.buys("bob@example.com", NAME) for _ in range(2)]
    stated = BuyerDetails(
        name="Bob Weber", street="Weg 1", postcode="20457", city="Hamburg", country="DE", reference=f"for {NAME}"
    )
    scope = persons.world.ours_test.scope
    async with persons.database.transaction() as tx:
        for order_id in orders:
            await save_buyer(tx, scope, order_id, stated)
    [record] = [each for each in await persons.export("bob weber") if each.id == orders[0] and each.kind == "buyer"]
    assert record.data["street"] == "Weg 1"

    await persons.erase(NAME)
    assert await persons.database.run(find_buyer, scope, orders[0]) == replace(stated, reference="for erased")
    await persons.erase("Bob Weber")
    erased: dict[str, Any] = dict.fromkeys(("name", "street", "postcode", "city", "reference"), "erased")
    for order_id in orders:
        assert await persons.database.run(find_buyer, scope, order_id) == BuyerDetails(country="DE", **erased)
    assert await columns_with(persons.database, "Bob Weber", "Weg 1") == set()
    await persons.check_invariants()
