"""After a change of the public address, orders show their certificates there, and nothing else changes."""

from tests.supply.retirements.shop import Shop
from tests.supply.retirements.test_endpoints import pay
from tests.support.api_client import ApiClient
from tests.support.command import Operator

OLD, NEW = "http://tonne.test", "https://offsets.example.com"
KEPT = "SELECT document FROM events ORDER BY sequence, position"
STATEMENTS = "SELECT statement FROM log_statements ORDER BY statement"


async def test_orders_follow_and_signed_bytes_stay(api: ApiClient, trial: Shop) -> None:
    await trial.sell("wind", {"A": 1})
    await trial.supply("A", 2020, 10)
    sold = trial.bundle_id("wind")
    metadata = {"page": f"{OLD}/v1/orders/certificate"}
    placed = await api.order(bundle_selection=[{"bundle_id": sold}], metadata=metadata)
    waiting = await api.order(bundle_selection=[{"bundle_id": sold}], mass={"amount": "2", "unit": "t"})
    for order in (placed, waiting):
        await pay(trial, trial.world.ours_test.scope, order["id"])
    await trial.work()
    before = (await api.get(f"/v1/orders/{placed['id']}")).json()
    assert before["certificate"].startswith(f"{OLD}/v1/")
    kept = [await trial.fetch(KEPT), await trial.fetch(STATEMENTS)]
    operator = Operator(trial.database._url, public_url=NEW, secret_key=trial.settings.secret_key)

    assert operator.does("urls", "rewrite", OLD, NEW, "--dry-run") == f"2 order(s) contain URLs of {OLD}."
    assert (await api.get(f"/v1/orders/{placed['id']}")).json() == before
    assert operator.does("urls", "rewrite", f"{OLD}/", NEW) == f"2 order(s) rewritten from {OLD}."
    after = (await api.get(f"/v1/orders/{placed['id']}")).json()
    assert after["certificate"] == before["certificate"].replace(OLD, NEW)
    assert after["public_certificate_url"] == before["public_certificate_url"].replace(OLD, NEW)
    assert after["metadata"] == metadata
    assert {**after, "certificate": 0, "public_certificate_url": 0} == {
        **before,
        "certificate": 0,
        "public_certificate_url": 0,
    }
    assert (await api.get(f"/v1/orders/{waiting['id']}")).json()["certificate"].startswith(NEW)
    assert [await trial.fetch(KEPT), await trial.fetch(STATEMENTS)] == kept
    assert operator.does("urls", "rewrite", OLD, NEW) == f"0 order(s) rewritten from {OLD}."
    [entry] = await trial.fetch("SELECT details FROM audit_log WHERE action = 'orders.urls_rewritten'")
    assert '"orders": 2' in entry["details"]
    await trial.check_invariants()

    assert "Set TONNE_PUBLIC_URL first" in operator.is_refused("urls", "rewrite", OLD, "https://other.example.com")
    assert "expected an address" in operator.runs("urls", "rewrite", "old.example.com", NEW).stderr
