"""One row that always fails is postponed. Every job handles the other rows, and that row once it no longer fails."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta

import pytest

from tests.supply.retirements.shop import TONNE, Shop
from tests.support.clock import MARCH, ManualClock
from tests.support.orders import place, receive
from tests.support.scene import Scene
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.money.cards.stored_cards.stored_cards import describe_card, store_card
from tonne.platform.db.database import Database
from tonne.platform.documents.mail.outbox import enqueue
from tonne.platform.documents.mail.send_mail import compose_mail
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode

ADD_FAULT = """
CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'poisoned'; END $$;
CREATE FUNCTION bills(text, text) RETURNS boolean LANGUAGE sql AS
$$ SELECT EXISTS (SELECT FROM invoice_orders WHERE invoice_id = $1 AND order_id = $2) $$;
CREATE TRIGGER fault BEFORE {fault} EXECUTE FUNCTION fail();
"""
INSERT_LINK = """
INSERT INTO offset_links (account_id, id, organisation_id, mode, title, created_at)
SELECT account_id, 'lnk_' || id, organisation_id, mode, 'Offset your flight', created_at FROM orders
"""
# A checkout for every order; the address says which.
INSERT_CHECKOUTS = """
INSERT INTO checkouts (account_id, id, organisation_id, mode, offset_link_id, token_hash, temporary_id_hash, status,
                       requested_quantity_grams, total_cost_minor, currency, email, order_id, created_at, expires_at,
                       next_close_at, next_mail_at)
SELECT account_id, id, organisation_id, mode, 'lnk_' || id, sha256(id::bytea), sha256(id::bytea), $1::text,
       1000, 100, currency, id || '@example.com', CASE WHEN $1 = 'ordered' THEN id END, created_at, created_at,
       created_at, created_at
FROM orders
"""


class PoisonScene(Scene):
    """One test account, one live shop, and a clock that the test moves."""

    def __init__(self, services: Services, world: World, clock: ManualClock) -> None:
        super().__init__(services, clock)
        self.scope = world.ours_test.scope
        self.live = Shop(services, world, clock, Mode.LIVE)
        self.live_scope = world.ours_live.scope

    async def run(self, job_name: str) -> bool:
        [job] = [job for job in self.services.jobs() if job.name == job_name]
        return await job.run_once()

    async def run_all(self, job_name: str) -> None:
        for _ in range(5):
            if not await self.run(job_name):
                return
        raise AssertionError(f"{job_name} always finds something to do")

    async def place(self) -> tuple[str, str]:
        """Two orders; the first is the one that will fail."""
        orders = [await place(self.services, self.scope, self.clock.now) for _ in range(2)]
        return orders[0].id, orders[1].id

    async def receive(self) -> tuple[str, str]:
        orders = [await receive(self.services, self.scope, self.clock.now) for _ in range(2)]
        self.clock.now += timedelta(minutes=1)
        return orders[0].id, orders[1].id

    async def place_by_card(self) -> tuple[str, str]:
        await self.execute("UPDATE accounts SET payment_method = 'card' WHERE id = $1", self.scope.account_id)
        card = await describe_card(self.services.card_gateways, Mode.TEST, None, "4242424242424242")
        async with self.services.database.transaction() as tx:
            await store_card(tx, self.scope, card, by=TESTER.at(self.clock.now))
        return await self.place()

    async def owe_refunds(self) -> tuple[str, str]:
        ids = await self.place_by_card()
        await self.run_all("charge_test_cards")
        await self.execute("UPDATE charges SET status = 'refund_due', is_surplus = true, check_at = $1", self.clock.now)
        return ids

    async def plan_refunds(self) -> tuple[str, str]:
        ids = await self.owe_refunds()
        await self.run_all("check_payments")
        return ids

    async def issue_invoices(self) -> tuple[str, str]:
        ids = await self.place()
        await self.run_all("issue_invoices")
        return ids

    async def pay(self) -> tuple[str, str]:
        ids = await self.issue_invoices()
        await self.run_all("follow_up_invoices")
        return ids

    async def complete(self) -> tuple[str, str]:
        ids = await self.pay()
        for job_name in ("allocate_orders", "retire_units", "allocate_orders"):
            await self.run_all(job_name)
        return ids

    async def retire(self) -> tuple[str, str]:
        await self.live.sell("wind", {"A": 1})
        await self.live.supply("A", 2020, 10)
        orders = [await self.live.buy(self.live_scope, TONNE, "wind") for _ in range(2)]
        await self.run_all("allocate_orders")
        await self.live.confirm(*await self.live.work_list())
        return orders[0].id, orders[1].id

    async def open_units(self) -> tuple[str, str]:
        await self.live.sell("wind", {"A": 1})
        await self.live.supply("A", 2020, 10)
        for name in ("Ada", "Bob"):
            await self.live.buy(await self.live.account(name), TONNE // 2, "wind")
        await self.run_all("allocate_orders")
        self.clock.now += timedelta(days=365)
        return str(await self.fetchval("SELECT min(id) FROM parcels")), str(
            await self.fetchval("SELECT max(id) FROM parcels")
        )

    async def invalidate_credits(self) -> tuple[str, str]:
        await self.live.sell("wind", {"A": 1})
        lot_id = await self.live.supply("A", 2020, 10)
        orders = [await self.live.buy(self.live_scope, TONNE, "wind") for _ in range(2)]
        await self.run_all("allocate_orders")
        await self.live.supply("A", 2021, 10)
        await self.live.invalidate(lot_id, "Cancelled.")
        return orders[0].id, orders[1].id

    async def expire_checkouts(self) -> tuple[str, str]:
        ids = await self.place()
        await self.execute(INSERT_LINK)
        await self.execute(INSERT_CHECKOUTS, "ordered")
        return ids

    async def abandon_checkouts(self) -> tuple[str, str]:
        ids = await self.place()
        await self.execute(INSERT_LINK)
        await self.execute(INSERT_CHECKOUTS, "open")
        return ids

    async def owe_certificates(self) -> tuple[str, str]:
        ids = await self.complete()
        await self.execute(INSERT_LINK)
        await self.execute(INSERT_CHECKOUTS, "ordered")
        return ids

    async def enqueue_mails(self) -> tuple[str, str]:
        async with self.services.database.transaction() as tx:
            for name in ("a", "b"):
                to = [f"{name}@example.com"]
                await enqueue(tx, "org_a", to, compose_mail(self.services.settings, to, "Subject", "text"))
        return str(await self.fetchval("SELECT min(id) FROM mails")), str(
            await self.fetchval("SELECT max(id) FROM mails")
        )

    async def pass_time(self) -> None:
        """Longer than any postponement or lease."""
        self.clock.now += timedelta(hours=1)
        await self.execute("UPDATE mails SET next_attempt_at = now() WHERE sent_at IS NULL AND held_reason IS NULL")


@dataclass(frozen=True)
class Case:
    """`fault` fails the write of the row `{id}`; `done` tells whether the job has handled the row `$1`."""

    job: str
    arrange: Callable[[PoisonScene], Awaitable[tuple[str, str]]]
    fault: str
    done: str


def _on(table: str, event: str, condition: str) -> str:
    return f"{event} ON {table} FOR EACH ROW WHEN ({condition})"


def _status(status: str, table: str = "orders") -> str:
    return f"SELECT status = '{status}' FROM {table} WHERE id = $1"  # noqa: S608 - names of this file


CASES = {
    "price": Case(
        "price_waiting_orders",
        PoisonScene.receive,
        _on("orders", "UPDATE", "NEW.id = '{id}' AND NEW.status = 'placed'"),
        _status("placed"),
    ),
    "open a charge": Case(
        "charge_test_cards",
        PoisonScene.place_by_card,
        _on("charges", "INSERT", "NEW.order_id = '{id}'"),
        _status("paid"),
    ),
    "settle a charge": Case(
        "charge_test_cards",
        PoisonScene.place_by_card,
        _on("charges", "UPDATE", "NEW.order_id = '{id}' AND NEW.status = 'captured'"),
        _status("paid"),
    ),
    "compare a charge with the gateway": Case(
        "check_payments",
        PoisonScene.owe_refunds,
        _on("refunds", "INSERT", "NEW.order_id = '{id}'"),
        "SELECT EXISTS (SELECT FROM refunds WHERE order_id = $1)",
    ),
    "refund": Case(
        "make_refunds",
        PoisonScene.plan_refunds,
        _on("charges", "UPDATE", "NEW.order_id = '{id}' AND NEW.status = 'refunded'"),
        "SELECT status = 'refunded' FROM charges WHERE order_id = $1",
    ),
    "issue an invoice": Case(
        "issue_invoices",
        PoisonScene.place,
        _on("invoice_orders", "INSERT", "NEW.order_id = '{id}'"),
        "SELECT EXISTS (SELECT FROM invoice_orders WHERE order_id = $1)",
    ),
    "mail an invoice": Case(
        "follow_up_invoices",
        PoisonScene.issue_invoices,
        _on("invoices", "UPDATE", "bills(NEW.id, '{id}') AND NEW.mailed_at IS NOT NULL"),
        "SELECT mailed_at IS NOT NULL FROM invoices JOIN invoice_orders ON invoice_id = id WHERE order_id = $1",
    ),
    "allocate": Case(
        "allocate_orders",
        PoisonScene.pay,
        _on("order_projects", "INSERT", "NEW.order_id = '{id}'"),
        _status("retiring"),
    ),
    "complete": Case(
        "allocate_orders",
        PoisonScene.retire,
        _on("certificates", "INSERT", "NEW.order_id = '{id}'"),
        _status("complete"),
    ),
    "close a unit": Case(
        "close_units",
        PoisonScene.open_units,
        _on("parcels", "UPDATE", "NEW.id = '{id}' AND NEW.status = 'to_retire'"),
        _status("to_retire", "parcels"),
    ),
    "supply from another lot": Case(
        "resupply_orders",
        PoisonScene.invalidate_credits,
        _on("replaced_shares", "INSERT", "NEW.order_id = '{id}'"),
        "SELECT state = 'resupplied' FROM lot_cases WHERE order_id = $1",
    ),
    "close a checkout": Case(
        "close_checkouts",
        PoisonScene.expire_checkouts,
        _on("checkouts", "UPDATE", "NEW.id = '{id}' AND NEW.status = 'closed'"),
        _status("closed", "checkouts"),
    ),
    "delete a checkout": Case(
        "close_checkouts",
        PoisonScene.abandon_checkouts,
        _on("checkouts", "DELETE", "OLD.id = '{id}'"),
        "SELECT NOT EXISTS (SELECT FROM checkouts WHERE id = $1)",
    ),
    "mail a certificate": Case(
        "mail_certificates",
        PoisonScene.owe_certificates,
        _on("mails", "INSERT", "NEW.recipients[1] = '{id}@example.com'"),
        "SELECT EXISTS (SELECT FROM mails WHERE recipients[1] = $1 || '@example.com')",
    ),
    "send a mail": Case(
        "send_mails",
        PoisonScene.enqueue_mails,
        _on("mails", "UPDATE", "NEW.id = '{id}' AND NEW.sent_at IS NOT NULL"),
        "SELECT sent_at IS NOT NULL FROM mails WHERE id = $1",
    ),
}


@pytest.fixture
def scene(populated_db: Database, settings: Settings, world: World) -> PoisonScene:
    clock = ManualClock(MARCH)
    return PoisonScene(Services(populated_db, settings, clock), world, clock)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
async def test_operations_1_and_money_19_a_row_that_always_fails_does_not_stop_the_others(
    scene: PoisonScene, case: Case
) -> None:
    poisoned, sound = await case.arrange(scene)
    await scene.execute(ADD_FAULT.replace("{fault}", case.fault.replace("{id}", poisoned)))
    await scene.run_all(case.job)
    assert await scene.fetchval(case.done, sound) is True, "it is handled"
    assert not await scene.fetchval(case.done, poisoned), "it is postponed: nothing is due any more"

    await scene.execute("DROP FUNCTION fail CASCADE")
    await scene.pass_time()
    await scene.run_all(case.job)
    assert await scene.fetchval(case.done, poisoned) is True, "it is handled once the fault is gone"


async def test_a_database_that_is_away_is_not_asked_for_every_row(
    populated_db: Database, settings: Settings, world: World
) -> None:
    """Every row would fail, and postponing them would fail as well."""
    clock = ManualClock(MARCH)
    scene = PoisonScene(Services(populated_db, settings, clock), world, clock)
    await scene.place()
    await scene.execute(
        "CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS"
        " $$ BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NEW; END $$;"
        "CREATE TRIGGER fault BEFORE INSERT ON invoices EXECUTE FUNCTION fail()"
    )
    with pytest.raises(Exception, match=r"terminating connection|closed"):
        await scene.run("issue_invoices")
    await scene.execute("DROP FUNCTION fail CASCADE")
    assert await scene.run("issue_invoices"), "they are due as before"
    assert await scene.fetchval("SELECT count(*) FROM invoices") == 2
