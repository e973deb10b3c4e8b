"""Correcting a name over HTTP and from the command line."""

import httpx

from tests.supply.retirements.shop import Shop
from tests.support.api_client import ApiClient, codes, fields
from tests.support.command import Operator


async def put(api: ApiClient, order_id: str, body: object) -> httpx.Response:
    return await api.http.put(f"/v1/orders/{order_id}/beneficiary", json=body, headers=api._headers({}))


async def sell(trial: Shop) -> str:
    await trial.sell("wind", {"A": 1})
    await trial.supply("A", 2020, 10)
    return trial.bundle_id("wind")


async def test_money_8_a_name_is_corrected_before_and_after_the_retirement(api: ApiClient, trial: Shop) -> None:
    order = await api.order(bundle_selection=[{"bundle_id": await sell(trial)}])
    early = await put(api, order["id"], {"name": "Fjord Bakery"})
    assert (early.status_code, early.json()) == (200, order | {"beneficiary": {"name": "Fjord Bakery"}})
    done = await api.post(f"/v1/test-helpers/orders/{order['id']}/settle-invoice", {})
    assert done.status_code == 200
    await trial.work()
    complete = (await api.get(f"/v1/orders/{order['id']}")).json()
    assert complete["status"] == "complete"
    first = (await api.get(f"/v1/orders/{order['id']}/certificate.json")).json()

    late = await put(api, order["id"], {"name": "Fjord Bakery AS", "reason": "The legal form was missing."})
    second = (await api.get(f"/v1/orders/{order['id']}/certificate.json")).json()
    address = f"http://tonne.test/certificates/{second['number']}"
    assert late.json() == complete | {
        "beneficiary": {"name": "Fjord Bakery AS"},
        "public_certificate_url": address,
    }
    assert second["replaces"] == {"number": first["number"], "reason": "The legal form was missing."}
    listed = (await api.get(f"/v1/orders/{order['id']}/certificates")).json()["data"]
    assert [(each["number"], each["state"], each["replaced_by"]) for each in listed] == [
        (second["number"], "valid", None),
        (first["number"], "replaced", second["number"]),
    ]
    old = await api.get(f"/v1/orders/{order['id']}/certificate?number={first['number']}")
    assert (old.status_code, old.headers["content-type"]) == (200, "application/pdf")
    await trial.check_invariants()


async def test_bad_names_and_orders_of_others_are_refused(api: ApiClient, trial: Shop) -> None:
    order = await api.order()
    for body, field in (
        ({"name": "  "}, "name"),
        ({"name": "Ada", "reason": ""}, "reason"),
        ({"name": "Ada", "reason": "a\nb"}, "reason"),
        ({"reason": "Why"}, "name"),
    ):
        answer = await put(api, order["id"], body)
        assert (answer.status_code, codes(answer), fields(answer)) == (400, ["validation_error"], [field])
    other = await put(api.as_key(trial.world.theirs_test.key), order["id"], {"name": "Mine"})
    assert (other.status_code, codes(other)) == (404, ["order_not_found"])
    await api.post(f"/v1/orders/{order['id']}/cancel", {})
    gone = await put(api, order["id"], {"name": "Ada"})
    assert (gone.status_code, codes(gone)) == (409, ["order_transition_invalid"])


async def test_people_a5_the_operator_corrects_a_name(api: ApiClient, trial: Shop, operator: Operator) -> None:
    order = await api.order(bundle_selection=[{"bundle_id": await sell(trial)}])
    said = operator.does("order", "rename", order["id"], "Fjord Bakery AS", "--reason", "Misspelt.")
    assert said == f"The certificate of order {order['id']} is in the name of Fjord Bakery AS."
    assert operator.does("order", "certificates", order["id"]) == "The order has no certificate yet."
    await api.post(f"/v1/test-helpers/orders/{order['id']}/settle-invoice", {})
    await trial.work()
    said = operator.does("order", "rename", order["id"], "Maria Keller", "--person", "--reason", "A guest paid.")
    assert said.endswith("A new certificate replaces the old one: `tonne order certificates` lists both.")
    heads, new, old = operator.does("order", "certificates", order["id"]).splitlines()
    assert heads.split()[:2] == ["number", "state"]
    assert (new.split()[1], old.split()[1]) == ("valid", "replaced")
    assert "A guest paid." in old
    assert "expected 1 to 500" in operator.runs("order", "rename", order["id"], "Ada", "--reason", " ").stderr
