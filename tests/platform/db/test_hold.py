"""A held service answers reads, sends nothing and takes no number."""

import asyncio
import contextlib
from pathlib import Path

import asyncpg
import httpx
import msgspec
import pytest

from tests.apps.cli.story import Story
from tests.support.api_client import ApiClient, codes
from tests.support.command import Operator, refusal_of
from tests.support.scene import Scene
from tests.support.world import SELLER, World
from tonne.apps.cli.operations.doctor import find_waiting
from tonne.apps.wiring.app import Services, build_app
from tonne.money.cards.gateways.card import StoredCard
from tonne.platform.db.errors import ServiceHeld, is_service_held
from tonne.platform.jobs.loop import Job, run_jobs
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode

CARD = StoredCard("", "4242424242424242")


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **SELLER)


@pytest.fixture
def operator(services: Services) -> Operator:
    return Operator(services.database._url, secret_key=services.settings.secret_key)


@pytest.fixture
async def held(services: Services, operator: Operator) -> Services:
    operator.does("hold", "--reason", "Restored from Sunday")
    await services.hold.refresh()
    return services


@pytest.fixture
def scene(services: Services) -> Scene:
    return Scene(services)


@pytest.mark.usefixtures("held")
async def test_reads_are_answered_and_writes_refused(api: ApiClient) -> None:
    assert (await api.get("/v1/orders")).status_code == 200
    answer = await api.post("/v1/orders/by-mass", {"mass": {"amount": "1", "unit": "t"}})
    assert (answer.status_code, codes(answer)) == (503, ["service_held"])
    assert answer.headers["Retry-After"] == "60"
    ready = await api.http.get("/health/ready")
    assert (ready.status_code, ready.json()) == (200, {"status": "held"})


async def test_a_process_notices_both_ends_of_a_hold(services: Services, operator: Operator) -> None:
    await services.hold.refresh()
    assert not services.hold.is_held
    watching = asyncio.create_task(services.hold.watch())
    operator.does("hold", "--reason", "A test")
    scene = Scene(services)
    await scene.until(lambda: _is(services, held=True))
    operator.does("resume", "--yes")
    await scene.until(lambda: _is(services, held=False))
    watching.cancel()


async def _is(services: Services, *, held: bool) -> bool:
    return services.hold.is_held is held


async def test_a_wrong_key_is_refused_as_such_while_held(held: Services) -> None:
    transport = httpx.ASGITransport(build_app(held), raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://tonne.test") as client:
        answer = await client.post("/v1/orders/by-mass", json={}, headers={"Authorization": "Bearer no"})
    assert answer.status_code == 401


@pytest.mark.usefixtures("held")
async def test_a_page_says_so(browser: httpx.AsyncClient) -> None:
    answer = await browser.post("/checkout/no-such-token/pay", data={})
    assert answer.status_code == 503
    assert "We are working on the service." in answer.text


async def test_no_job_runs_until_the_service_resumes() -> None:
    stop = asyncio.Event()
    answers = iter([True, True, True, False])
    left = 4

    def is_held() -> bool:
        nonlocal left
        left -= 1
        return next(answers)

    async def send() -> bool:
        assert left == 0, "the job ran while the service was held"
        stop.set()
        return False

    await asyncio.wait_for(run_jobs([Job("send", send)], stop, 0.01, is_held=is_held), 10)


async def test_no_request_reaches_a_gateway(held: Services) -> None:
    gateway = held.card_gateways["simulated"]
    with pytest.raises(ServiceHeld):
        await gateway.describe(CARD)
    assert await Scene(held).fetchval("SELECT count(*) FROM simulated_charges") == 0


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE document_series SET last_number = last_number + 1",
        "INSERT INTO certificates SELECT * FROM certificates",
        "INSERT INTO charges SELECT * FROM charges",
        "INSERT INTO refunds SELECT * FROM refunds",
    ],
)
async def test_the_database_itself_refuses_numbers_and_money(
    services: Services, operator: Operator, statement: str
) -> None:
    """Also to a process that has not noticed the hold yet."""
    scene = Scene(services)
    await scene.execute(statement)
    operator.does("hold", "--reason", "A test")
    with pytest.raises(asyncpg.PostgresError) as refused:
        await scene.execute(statement)
    assert is_service_held(refused.value)


async def test_an_invoice_is_not_issued_by_a_worker_that_did_not_notice(
    services: Services, world: World, operator: Operator
) -> None:
    scene = Scene(services)
    await scene.place_order(world.ours_live.scope)
    operator.does("hold", "--reason", "A test")
    before = await scene.fetchval("SELECT last_number FROM document_series WHERE series = 'TN' AND mode = 'live'")
    with contextlib.suppress(asyncpg.PostgresError):
        await services.issue_invoices.run_once()
    assert await scene.fetchval("SELECT count(*) FROM invoices") == 0
    assert (
        await scene.fetchval("SELECT last_number FROM document_series WHERE series = 'TN' AND mode = 'live'") == before
    )
    operator.does("resume", "--yes")
    await scene.check_invariants()


async def test_a_command_that_takes_a_number_is_refused(
    api: ApiClient, services: Services, world: World, operator: Operator, tmp_path: Path
) -> None:
    story = Story(api, services, world, tmp_path, {"secret_key": services.settings.secret_key, **SELLER})
    [number] = await story.numbered()
    operator.does("hold", "--reason", "A test")
    own = {"database_url": services.database._url, "secret_key": services.settings.secret_key, **SELLER}
    message = refusal_of("invoice", "credit", number, "0.01", "--reason", "Late", **own)
    assert "The service is held" in message
    assert "`tonne resume`" in message
    account_id = world.ours_test.scope.account_id
    assert "held" in operator.is_refused("card", "set", account_id, "--method", CARD.method)


async def test_resume_shows_what_would_be_sent_and_asks(services: Services, world: World, operator: Operator) -> None:
    operator.does("hold", "--reason", "Restored from Sunday")
    await Scene(services).place_order(world.ours_live.scope)
    asked = operator.runs("resume")
    assert asked.returncode == 1
    assert "Restored from Sunday" in asked.stdout
    assert "orders to charge or invoice" in asked.stdout
    scene = Scene(services)
    assert await scene.fetchval("SELECT count(*) FROM service_holds") == 1
    assert "Resumed." in operator.does("resume", "--yes")
    assert await scene.fetchval("SELECT count(*) FROM service_holds") == 0
    assert operator.does("resume") == "The service is not held."


async def test_hold_and_resume_are_audited_and_holding_twice_keeps_the_first_reason(
    services: Services, operator: Operator
) -> None:
    operator.does("hold", "--reason", "First")
    assert "already" in operator.does("hold", "--reason", "Second")
    operator.does("resume", "--yes")
    rows = await Scene(services).fetch("SELECT action, details->>'reason' AS reason FROM audit_log ORDER BY at, id")
    found = [tuple(row) for row in rows if row["action"].startswith("service.")]
    assert found == [("service.held", "First"), ("service.resumed", "First")]


async def test_the_doctor_warns(services: Services, operator: Operator, scene: Scene) -> None:
    async with services.database.transaction() as tx:
        assert "the service is not held" not in await find_waiting(tx, services.settings, scene.clock())
    operator.does("hold", "--reason", "Restored from Sunday")
    async with services.database.transaction() as tx:
        found = await find_waiting(tx, services.settings, scene.clock())
    [where] = found["the service is not held"]
    assert "Restored from Sunday" in where
    assert "WARNING  hold: The service is held" in operator.runs("check").stdout


async def test_a_job_of_a_held_gateway_charges_nobody(services: Services, world: World, operator: Operator) -> None:
    """The hold begins while the worker runs: its charges are refused by the database."""
    scene = Scene(services)
    account_id = world.ours_test.scope.account_id
    operator.does("card", "set", account_id, "--method", CARD.method)
    operator.does("account", "update", account_id, "--payment-method", "card")
    services.directory.forget_terms(world.ours_test.scope)
    await scene.place_order(world.ours_test.scope)
    operator.does("hold", "--reason", "A test")
    with contextlib.suppress(asyncpg.PostgresError):
        await services.charge_cards[Mode.TEST].run_once()
        await services.charge_cards[Mode.TEST].drain()
    assert await scene.fetchval("SELECT count(*) FROM charges") == 0
