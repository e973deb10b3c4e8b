"""tonne card"""

import json

import pytest

from tests.money.cards.gateways.gateway_under_test import LIVE_KEY, stripe_under_test
from tests.money.cards.gateways.localstripe_server import localstripe
from tests.support.command import output_of, refusal_of
from tests.support.world import World
from tonne.platform.db.database import Database
from tonne.platform.values.context import new_id

AUDIT = """
SELECT action, coalesce(after, before) AS card FROM audit_log
WHERE subject_id = $1 AND action LIKE 'card.%' ORDER BY at, id
"""

PUBLIC_KEY = "pk_live_public"


@pytest.fixture
def url(populated_db: Database) -> str:
    return populated_db._url


async def _audit(database: Database, account_id: str) -> list[tuple[str, str]]:
    async with database.connection() as connection:
        rows = await connection.fetch(AUDIT, account_id)
    return [(row["action"], json.loads(row["card"])["last_four"]) for row in rows]


async def test_a_test_account_stores_a_test_card(populated_db: Database, url: str, world: World) -> None:
    account_id = world.ours_test.scope.account_id
    said = output_of("card", "set", account_id, "--method", "4242424242424242", database_url=url).splitlines()
    assert said[0] == "visa …4242, expires 2049-12"
    assert "--payment-method card" in said[1]
    shown = output_of("card", "show", account_id, database_url=url)
    assert "4242" in shown
    assert "4242424242424242" not in shown
    output_of("account", "update", account_id, "--payment-method", "card", database_url=url)
    said = output_of("card", "set", account_id, "--method", "4000000000009995", database_url=url).splitlines()
    assert said == ["visa …9995, expires 2049-12"]
    assert output_of("card", "remove", account_id, database_url=url) == f"The card of {account_id} is removed."
    assert "has no card" in refusal_of("card", "show", account_id, database_url=url)
    assert "has no card" in refusal_of("card", "remove", account_id, database_url=url)
    assert await _audit(populated_db, account_id) == [
        ("card.stored", "4242"),
        ("card.stored", "9995"),
        ("card.removed", "9995"),
    ]


def test_two_accounts_with_one_number_are_two_customers(url: str, world: World) -> None:
    customers = set()
    for account_id in (world.ours_test.scope.account_id, world.ours_test.client_account_id):
        output_of("card", "set", account_id, "--method", "4242424242424242", database_url=url)
        customers.add(output_of("card", "show", account_id, database_url=url).split()[-1])
    assert len(customers) == 2


def test_refusals_are_one_sentence(url: str, world: World) -> None:
    ours, live = world.ours_test.scope.account_id, world.ours_live.scope.account_id
    pan = "5555555555554444"
    assert "no test card 555555…" in refusal_of("card", "set", ours, "--method", pan, database_url=url)
    for spelling in (pan, "5555 5555 5555 4444", "5555-5555-5555-4444"):
        sentence = refusal_of("card", "set", live, "--method", spelling, "--customer", "cus_1", database_url=url)
        assert "not a card number" in sentence
        assert spelling not in sentence
    assert "--customer" in refusal_of("card", "set", live, "--method", "pm_1", database_url=url)
    set_up = refusal_of("card", "set", live, "--method", "pm_1", "--customer", "cus_1", database_url=url)
    assert "TONNE_STRIPE_SECRET_KEY" in set_up
    assert "There is no account" in refusal_of("card", "set", new_id("acc"), "--method", pan, database_url=url)
    bad_key = refusal_of("card", "show", ours, database_url=url, stripe_secret_key=PUBLIC_KEY)
    assert "TONNE_STRIPE_SECRET_KEY" in bad_key
    assert PUBLIC_KEY not in bad_key


async def test_a_live_account_stores_a_card_of_stripe(populated_db: Database, url: str, world: World) -> None:
    live = world.ours_live.scope.account_id
    with localstripe() as base:
        settings = {"database_url": url, "stripe_secret_key": LIVE_KEY, "stripe_api_base": base}
        async with stripe_under_test(base) as subject:
            card, other = await subject.card(), await subject.card()
        words = ("card", "set", live, "--method", card.method, "--customer")
        said = output_of(*words, card.customer, **settings).splitlines()
        assert said[0] == "visa …4242, expires 2049-04"
        assert "Attach it" in refusal_of(*words, other.customer, **settings)
        words = ("card", "set", live, "--customer", card.customer, "--method")
        assert "has no payment method" in refusal_of(*words, "pm_unknown", **settings)
    assert "cannot be reached" in refusal_of(*words, card.method, **settings), "it is not there any more"
    async with populated_db.connection() as connection:
        row = await connection.fetchrow("SELECT gateway, customer, method FROM account_cards")
    assert row is not None
    assert tuple(row) == ("stripe", card.customer, card.method)
