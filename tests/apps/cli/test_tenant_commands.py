"""Organisations, accounts and keys from the command line, up to the first order."""

import json
from collections.abc import Sequence

import pytest

from tests.support.api_client import ApiClient
from tests.support.command import Operator, tonne
from tests.support.scene import Scene
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.jobs.loop import Job

DUMP = """
SELECT concat_ws(E'\n', (SELECT string_agg(api_keys::text, E'\n') FROM api_keys),
                 (SELECT string_agg(audit_log::text, E'\n') FROM audit_log))
"""


async def test_from_an_organisation_to_its_first_order(operator: Operator, api: ApiClient, world: World) -> None:
    organisation_id = operator.does("org", "create", "Fjörd & Söhne", "--fee-rate", "0.2")
    listed = operator.does("org", "list")
    assert any(organisation_id in line and "Fjörd & Söhne" in line and "0.2" in line for line in listed.splitlines())

    main = operator.does("account", "create", organisation_id, "Main", "--mode", "test", "--currency", "usd")
    client_arguments = ("--mode", "test", "--currency", "JPY", "--client", "--beneficiary", "A customer")
    client = operator.does("account", "create", organisation_id, "Customer", *client_arguments)
    accounts = {line.split()[0]: line for line in operator.does("account", "list", organisation_id).splitlines()}
    assert "USD" in accounts[main]
    assert "client_account" in accounts[client]
    assert "A customer" in accounts[client]

    bundle = world.bundles_test["wind-power"]
    assert operator.does("account", "set-bundles", main, bundle) == f"The default bundles of {main} are set."
    estimate_id = operator.does("estimate", "create", main, "184.2", "kg", "--description", "One week")
    as_main = api.as_key(operator.does("key", "create", main, "--name", "Till"))
    answer = await as_main.post("/v1/orders/by-estimate", {"estimate_id": estimate_id})
    assert answer.status_code == 201, answer.text
    order = answer.json()
    assert (order["currency"], order["quantity"]) == ("USD", "0.1842")
    assert [line["bundle_id"] for line in order["bundles"]] == [bundle]
    # 6.90 EUR at 1.08 are 7.45 USD; with a fee of 20 % of the total, 9.31.
    assert (order["bundles"][0]["unit_price"], order["bundles"][0]["gross_unit_price"]) == ("7.45", "9.31")
    theirs = await as_main.post("/v1/orders/by-mass", {"mass": {"amount": 1, "unit": "t"}}, Service_Account=client)
    assert theirs.json()["currency"] == "JPY"

    said = operator.does("org", "set-fee", organisation_id, "0")
    assert said == f"New orders of {organisation_id} have the fee rate 0."
    free = (await as_main.post("/v1/orders/by-value", {"value": "74.50"})).json()
    assert (free["quantity"], free["commission"]) == ("10", "0.00")


def test_setters_say_what_they_did_and_org_show_shows_it(operator: Operator) -> None:
    organisation_id = operator.does("org", "create", "Ours", "--fee-rate", "0.12345")
    said = operator.does("org", "set-address", organisation_id, "1 Harbour Street", "1000 Sample Town")
    assert said == f"The address of {organisation_id} is set."
    for email in ("grace@ours.test", "ada@ours.test"):
        assert operator.does("org", "add-admin", organisation_id, email) == f"{email} is an admin of {organisation_id}."
    shown = operator.does("org", "show", organisation_id)
    assert "address       1 Harbour Street\n              1000 Sample Town\n" in shown
    assert "admins        ada@ours.test, grace@ours.test\n" in shown
    assert "fee rate      0.12345\n" in shown
    said = operator.does("org", "remove-admin", organisation_id, "ada@ours.test")
    assert said == f"ada@ours.test is no longer an admin of {organisation_id}."
    assert "is not an admin" in operator.is_refused("org", "remove-admin", organisation_id, "ada@ours.test")
    assert operator.does("org", "set-address", organisation_id) == f"The address of {organisation_id} is cleared."
    said = operator.does("org", "set-bundles", organisation_id, "--mode", "test")
    assert said == f"The default bundles of {organisation_id} in test mode are cleared."


def test_an_account_is_updated(operator: Operator, world: World) -> None:
    account_id, organisation_id = world.ours_test.scope.account_id, world.ours_test.scope.organisation_id
    said = operator.does("account", "update", account_id, "--name", "Renamed", "--payment-method", "card", "--wait")
    assert said == f"Account {account_id} is updated."
    [row] = [line for line in operator.does("account", "list", organisation_id).splitlines() if account_id in line]
    assert "Renamed" in row
    assert "card" in row
    assert "Only test accounts" in operator.is_refused("account", "update", world.ours_live.scope.account_id, "--wait")


def test_people_c_an_account_whose_orders_would_wait_is_created_with_a_warning(
    operator: Operator, world: World
) -> None:
    organisation_id = world.ours_test.scope.organisation_id
    for mode, currency, warning in (
        ("test", "NOK", "the test catalogue has no exchange rate from EUR to NOK, so orders of this account wait."),
        # The rates of the demo are old, which matters in live mode only.
        (
            "live",
            "USD",
            "the live catalogue has no recent exchange rate from EUR to USD, so orders of this account wait.",
        ),
        ("test", "USD", ""),
        ("live", "EUR", ""),
    ):
        words = ("account", "create", organisation_id, "New", "--mode", mode, "--currency", currency)
        done = tonne(*words, database_url=operator.url)
        assert done.returncode == 0
        assert done.stdout.startswith("acc_")
        assert len(done.stdout.splitlines()) == 1
        assert warning in done.stderr
        assert bool(done.stderr) == bool(warning)
        if warning:
            assert f"`tonne catalogue import --mode {mode} exchange_rates.csv`" in done.stderr
            assert f"EUR,{currency},RATE,SOURCE," in done.stderr


@pytest.mark.parametrize("method", ["invoice", "card"])
async def test_money_22_orders_that_waited_proceed_after_advance(
    operator: Operator, services: Services, api: ApiClient, world: World, method: str
) -> None:
    account_id = world.ours_test.scope.account_id
    scene = Scene(services)
    operator.does("account", "update", account_id, "--payment-method", method)
    operator.does("card", "set", account_id, "--method", "4242424242424242")
    billed = await api.order() if method == "invoice" else None
    if billed:
        # Its invoice is issued and mailed, then the account waits.
        await services.issue_invoices.run_once()
    operator.does("account", "update", account_id, "--wait")
    placed, paid, retiring = [await api.order() for _ in range(3)]
    helper = "settle-invoice" if method == "invoice" else "pay"
    for order in (paid, retiring):
        await api.post(f"/v1/test-helpers/orders/{order['id']}/{helper}", {})
    # A worker that has claimed an order allocates it even if the account waits since.
    await scene.execute("UPDATE orders SET next_attempt_at = now() WHERE id = $1", retiring["id"])
    jobs = [job for job in services.jobs() if job.name not in {"deliver_webhooks", "send_mails"}]
    await _run(jobs)
    requested = [order["id"] for order in (placed, paid, retiring, billed) if order]
    states = [(await api.get(f"/v1/orders/{order_id}")).json()["status"] for order_id in requested]
    assert states == ["placed", "paid", "retiring", "placed"][: len(requested)]
    operator.does("account", "update", account_id, "--advance")
    await _run(jobs)
    for order_id in requested:
        assert (await api.get(f"/v1/orders/{order_id}")).json()["status"] == "complete"
    await scene.check_invariants()


async def _run(jobs: Sequence[Job]) -> None:
    while any([await job.run_once() for job in jobs]):
        pass


@pytest.mark.parametrize("words", [("account", "list"), ("key", "list"), ("org", "show")], ids=" ".join)
def test_listing_an_unknown_organisation_fails(operator: Operator, words: tuple[str, str]) -> None:
    assert operator.is_refused(*words, "org_nope").startswith("There is no organisation org_nope.")


async def test_a_key_is_shown_once_stored_as_a_hash_and_revoked_at_once(
    operator: Operator, api: ApiClient, world: World, populated_db: Database
) -> None:
    scope = world.ours_test.scope
    secret = operator.does("key", "create", scope.account_id)
    assert secret.startswith("tonne_test_")
    assert (await api.as_key(secret).get("/v1/orders")).status_code == 200

    table = operator.does("key", "list", scope.organisation_id)
    assert secret not in table
    [row] = [line for line in table.splitlines() if f"...{secret[-4:]}" in line]
    async with populated_db.connection() as connection:
        everything = await connection.fetchval(DUMP)
    assert secret not in everything
    assert secret.removeprefix("tonne_test_")[:20] not in everything

    key_id = row.split()[0]
    assert operator.does("key", "revoke", key_id) == f"{key_id} (...{secret[-4:]}) is revoked."
    assert (await api.as_key(secret).get("/v1/orders")).status_code == 401
    assert (await api.get("/v1/orders")).status_code == 200, "other keys still work"


def test_unknown_ids_say_where_to_look(operator: Operator, world: World) -> None:
    organisation_id, account_id = world.ours_test.scope.organisation_id, world.ours_test.scope.account_id
    account = ("account", "create", organisation_id, "Main", "--mode", "test", "--currency")
    assert "tonne org list" in operator.is_refused("account", "create", "org_gone", *account[3:], "EUR")
    assert "ISO 4217" in operator.is_refused(*account, "XXX")
    assert "tonne account list" in operator.is_refused("key", "create", "acc_gone")
    assert "tonne key list" in operator.is_refused("key", "revoke", "key_gone")
    assert "tonne org list" in operator.is_refused("org", "set-fee", "org_gone", "0.1")
    assert "tonne org list" in operator.is_refused("org", "set-address", "org_gone", "1 Harbour Street")
    assert "at most 1000" in operator.is_refused("org", "set-address", organisation_id, "x" * 1001)
    assert "1 to 200" in operator.is_refused("org", "create", " ")
    assert "bundle" in operator.is_refused("account", "set-bundles", account_id, world.disabled_bundle_test)
    halves = [f"{bundle}=49" for bundle in list(world.bundles_test.values())[:2]]
    assert "sum to 98." in operator.is_refused("account", "set-bundles", account_id, *halves)


@pytest.mark.parametrize(
    "words",
    [
        ("org", "create", "X", "--fee-rate", "1"),
        ("org", "create", "X", "--fee-rate", "NaN"),
        ("org", "create", "X", "--fee-rate", "ten"),
        ("estimate", "create", "acc_1", "0", "t"),
        ("estimate", "create", "acc_1", "1e3", "t"),
        ("estimate", "create", "acc_1", "1", "lb"),
        ("account", "create", "org_1", "X", "--mode", "demo", "--currency", "EUR"),
    ],
    ids=" ".join,
)
def test_an_invalid_value_is_rejected_before_connecting_to_the_database(words: tuple[str, ...]) -> None:
    done = tonne(*words, database_url="postgresql://127.0.0.1:1/x")
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].startswith("Error: Invalid value")


async def test_doctor_reports_broken_invariants_by_its_exit_code(
    operator: Operator, api: ApiClient, populated_db: Database
) -> None:
    order = await api.order()
    report = operator.does("doctor")
    assert report.endswith("All checks passed.")
    assert "BROKEN" not in report
    async with populated_db.transaction() as tx:
        await tx.execute("UPDATE order_lines SET quantity_grams = quantity_grams + 1")
    done = tonne("doctor", database_url=operator.url)
    assert done.returncode == 1
    assert "BROKEN  lines sum to their order, in grams and in money" in done.stdout
    assert order["id"] in done.stdout
    assert done.stderr.startswith("Error: 1 of ")


async def test_lists_of_accounts_show_which_are_closed(operator: Operator, world: World) -> None:
    scope = world.ours_test.scope
    operator.does("account", "update", scope.account_id, "--card-email", "cards@ours.test")
    assert operator.facts("account", "show", scope.account_id)["card problems to"] == "cards@ours.test"
    operator.does("account", "close", scope.account_id, "--reason", "The contract ended")
    listed = [
        json.loads(line) for line in operator.does("account", "list", scope.organisation_id, "--json").splitlines()
    ]
    assert [each["id"] for each in listed if each["closed_at"] is not None] == [scope.account_id]
