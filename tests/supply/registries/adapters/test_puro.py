"""The adapter speaks Puro's interface, over a network that loses, delays and doubles what it carries."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta

import pytest

from tests.support.clock import ManualClock
from tests.support.registries.network import Fault, Network
from tests.support.registries.puro_server import KEY, NUMBER, SECRET, PuroServer
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, replace
from tonne.supply.registries.adapters.puro import Puro
from tonne.supply.registries.gateway import INSUFFICIENT, UNAUTHORISED, Instruction, Movement, Outcome

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
ISSUANCE = "PURO_PR_CORC100+_FI_577166_2020_055a3fbe-eabc-4535-b9cf-1028e7d18f89"
OLD = (
    "PURO_PR_CORC_FR_181856_2021_8646834b-ea59-4167-996e-16d8a084cfc1_643002406555908610000000272877-"
    "643002406555908610000000272883"
)


@pytest.fixture
def network() -> Network:
    return Network(patience_s=0.6)


@pytest.fixture
async def registry(populated_db: Database, network: Network) -> PuroServer:
    return PuroServer(populated_db, ManualClock(NOW), network)


@pytest.fixture
async def puro(registry: PuroServer, network: Network, settings: Settings) -> AsyncIterator[Puro]:
    async with network.serving(registry.routes) as url:
        yield Puro(settings_for(settings, url))
    assert network.breaches == []


def settings_for(settings: Settings, url: str) -> Settings:
    return replace(
        settings,
        puro_account_number=NUMBER,
        puro_api_key=KEY,
        puro_api_secret=SECRET,
        puro_api_base=url,
        puro_unit_price="EUR 120.00",
        puro_contact_email="operator@seller.example",
        seller_name="Offsets Ltd",
        seller_country="IE",
        registry_timeout_s=1.0,
    )


def ask(holding_id: str, *units: tuple[int, int], beneficiary: str = "Ada") -> Instruction:
    return Instruction(
        mode=Mode.LIVE,
        id="rin_06gv7polm36s22qdupu1hboks4",
        registry_account="puro",
        lot_id="lot_1",
        holding_id=holding_id,
        units=units,
        beneficiary=beneficiary,
        reference="T-0123456789abcdef",
    )


async def test_exactly_the_units_that_are_named_are_retired(puro: Puro, registry: PuroServer) -> None:
    asked = ask(await registry.deposit(f"{ISSUANCE}_1-100"), (3, 5), (10, 10))
    assert (await puro.look_up(asked)).outcome is Outcome.NOT_FOUND
    answer = await puro.retire(asked)
    assert (answer.outcome, answer.units, answer.retired_on) == (Outcome.RETIRED, ((3, 5), (10, 10)), NOW.date())
    assert answer.url == f"https://retirements.puro.earth/retirement-statement/{answer.registry_reference}"
    [left] = await puro.list_holdings()
    assert (left.id, left.units) == (asked.holding_id, ((1, 2), (6, 9), (11, 100)))
    assert await puro.read_balance() == 96
    assert await puro.look_up(asked) == answer
    assert await puro.retire(asked) == answer, "the registry stores the answer of the key"
    assert await puro.look_up(replace(asked, registry_reference=answer.registry_reference)) == answer
    assert await puro.list_movements(NOW) == [Movement(asked.reference, asked.holding_id)]
    assert await puro.list_movements(NOW + timedelta(seconds=1)) == []


async def test_old_numbers_keep_their_eighteen_digits(puro: Puro, registry: PuroServer) -> None:
    asked = ask(await registry.deposit(OLD), (272878, 272879))
    assert (await puro.retire(asked)).units == ((272878, 272879),)
    assert await puro.read_balance() == 5


@pytest.mark.parametrize("fault", [Fault.LOST, Fault.ANSWER_LOST, Fault.LATE, Fault.TIMED_OUT, Fault.DOUBLED])
async def test_the_same_request_again_retires_once(puro: Puro, registry: PuroServer, fault: Fault) -> None:
    asked = ask(await registry.deposit(f"{ISSUANCE}_1-100"), (3, 5))
    registry.network.script["POST"].append(fault)
    first = await puro.retire(asked)
    assert first.outcome is (Outcome.RETIRED if fault is Fault.DOUBLED else Outcome.UNKNOWN)
    await registry.network.settle()
    assert (await puro.retire(asked)).outcome is Outcome.RETIRED
    assert await puro.read_balance() == 97


@pytest.mark.parametrize(("status", "code"), [(401, UNAUTHORISED), (403, UNAUTHORISED), (429, "too_many_requests")])
async def test_a_request_that_is_not_served_has_retired_nothing(
    puro: Puro, registry: PuroServer, status: int, code: str
) -> None:
    asked = ask(await registry.deposit(f"{ISSUANCE}_1-100"), (3, 5))
    registry.network.refusals = (status,)
    registry.network.script["POST"].append(Fault.REFUSED)
    answer = await puro.retire(asked)
    assert (answer.outcome, answer.code) == (Outcome.UNAVAILABLE, code)


async def test_refusals(puro: Puro, registry: PuroServer) -> None:
    holding_id = await registry.deposit(f"{ISSUANCE}_1-100")
    missing = await puro.retire(ask(holding_id, (99, 101)))
    assert (missing.outcome, missing.code, missing.is_final) == (Outcome.DECLINED, INSUFFICIENT, False)
    refused = await puro.retire(replace(ask(holding_id, (1, 2), beneficiary="Registry Declined"), id="rin_2"))
    assert (refused.outcome, refused.code) == (Outcome.DECLINED, "refused")
    assert refused.message == "The certificates cannot be retired. (status 400)"


async def test_a_transaction_that_is_not_completed_is_pending(puro: Puro, registry: PuroServer) -> None:
    asked = ask(await registry.deposit(f"{ISSUANCE}_1-100"), (3, 5), beneficiary="Registry Pending")
    answer = await puro.retire(asked)
    assert (answer.outcome, answer.units) == (Outcome.PENDING, ())
    found = await puro.look_up(replace(asked, registry_reference=answer.registry_reference))
    assert (found.outcome, found.units) == (Outcome.RETIRED, ((3, 5),))


async def test_a_transaction_that_is_rejected_has_retired_nothing(puro: Puro, registry: PuroServer) -> None:
    asked = ask(await registry.deposit(f"{ISSUANCE}_1-100"), (3, 5), beneficiary="Registry Pending Rejected")
    answer = await puro.retire(asked)
    assert answer.outcome is Outcome.PENDING
    found = await puro.look_up(replace(asked, registry_reference=answer.registry_reference))
    assert (found.outcome, found.code, found.is_final) == (Outcome.DECLINED, "rejected", True)
    assert found.message == "The registry has rejected the retirement."
    assert (await puro.look_up(asked)).outcome is Outcome.DECLINED, "also in the list"
    assert await puro.read_balance() == 100
    assert await puro.list_movements(NOW) == [], "nothing has left the account"


async def test_a_wrong_request_is_refused_and_not_repeated(
    registry: PuroServer, network: Network, settings: Settings
) -> None:
    async with network.serving(registry.routes) as url:
        puro = Puro(replace(settings_for(settings, url), puro_unit_price="EUR 0"))
        answer = await puro.retire(ask(await registry.deposit(f"{ISSUANCE}_1-100"), (3, 5)))
    assert (answer.outcome, answer.message) == (Outcome.DECLINED, "there is no price (status 422)")
    assert network.breaches == ["there is no price"]


async def test_a_registry_that_is_down(settings: Settings) -> None:
    puro = Puro(settings_for(settings, "http://127.0.0.1:1"))
    asked = ask("PURO_1_|-||1", (1, 1))
    assert (await puro.retire(asked)).outcome is Outcome.UNAVAILABLE
    assert (await puro.look_up(asked)).outcome is Outcome.UNKNOWN
