"""The adapter speaks Isometric's interface, over a network that loses, delays and doubles what it carries."""

import asyncio
import copy
from collections.abc import AsyncIterator, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, get_args, get_origin

import msgspec
import pytest

from tests.support.clock import ManualClock
from tests.support.registries.isometric_contract import (
    CreditBatch,
    CreditBatches,
    CreditBatchPage,
    OrganisationCreditBalance,
    Retirement,
    RetirementPage,
    answer_type,
    find_breach,
)
from tests.support.registries.isometric_server import ACCESS_TOKEN, CLIENT_SECRET, ORGANISATION, IsometricServer
from tests.support.registries.network import Fault, Network
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, replace
from tonne.supply.registries.adapters.isometric import (
    Isometric,
    _Balances,
    _CreditBatch,
    _CreditBatches,
    _CreditBatchPage,
    _Retirement,
    _RetirementPage,
)
from tonne.supply.registries.adapters.registry_http import convert
from tonne.supply.registries.gateway import (
    HOLDING_UNKNOWN,
    HOLDING_USED,
    INSUFFICIENT,
    UNAUTHORISED,
    Answer,
    Instruction,
    Movement,
    NotRead,
    Outcome,
)

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
# 1,000 kg.
SERIAL = "ISO-1-BSTORE-GBR-F5X7-2024-78001-79000"


@pytest.fixture
def network() -> Network:
    return Network(patience_s=0.6)


@pytest.fixture
async def registry(populated_db: Database, network: Network) -> IsometricServer:
    return IsometricServer(populated_db, ManualClock(NOW), network)


@pytest.fixture
async def isometric(registry: IsometricServer, network: Network, settings: Settings) -> AsyncIterator[Isometric]:
    async with network.serving(registry.routes) as url:
        yield Isometric(settings_for(settings, url))
    assert network.breaches == []


def settings_for(settings: Settings, url: str, token: str = ACCESS_TOKEN) -> Settings:
    return replace(
        settings,
        isometric_organisation_id=ORGANISATION,
        isometric_client_secret=CLIENT_SECRET,
        isometric_access_token=token,
        isometric_api_base=url,
        registry_timeout_s=1.0,
    )


def ask(batch_id: str, kgs: int, *, reference: str = "T-0123456789abcdef", beneficiary: str = "Ada") -> Instruction:
    return Instruction(
        mode=Mode.LIVE,
        id="rin_1",
        registry_account="isometric",
        lot_id="lot_1",
        holding_id=batch_id,
        units=((78001, 78000 + kgs),),
        beneficiary=beneficiary,
        reference=reference,
    )


async def test_a_part_of_a_batch_is_retired_to_the_kilogram(isometric: Isometric, registry: IsometricServer) -> None:
    batch_id = await registry.deposit(SERIAL)
    asked = ask(batch_id, 3)
    assert (await isometric.look_up(asked)).outcome is Outcome.NOT_FOUND
    answer = await isometric.retire(asked)
    assert (answer.outcome, answer.units, answer.retired_on) == (Outcome.RETIRED, ((78001, 78003),), NOW.date())
    assert answer.url == f"https://to.isometric.com/{answer.registry_reference}"
    [left] = await isometric.list_holdings()
    assert (left.id, left.units, left.namespace) == (answer.next_holding_id, ((78004, 79000),), "ISOMETRIC F5X7 2024")
    assert await isometric.look_up(asked) == answer
    assert await isometric.retire(asked) == answer, "a copy of the request finds what the first has done"
    assert await isometric.look_up(replace(asked, registry_reference=answer.registry_reference)) == answer


async def test_balance_and_movements(isometric: Isometric, registry: IsometricServer) -> None:
    batch_id = await registry.deposit(SERIAL)
    answer = await isometric.retire(ask(batch_id, 3))
    assert answer.next_holding_id is not None
    assert await isometric.read_balance() == 997
    await registry.retire_for_another(answer.next_holding_id, 7)
    assert await isometric.read_balance() == 990
    ours = Movement("T-0123456789abcdef", "")
    assert set(await isometric.list_movements(NOW)) == {ours, Movement("", answer.next_holding_id)}
    assert await isometric.list_movements(NOW + timedelta(seconds=1)) == []


async def test_a_whole_batch_leaves_nothing(isometric: Isometric, registry: IsometricServer) -> None:
    asked = ask(await registry.deposit(SERIAL), 1000)
    answer = await isometric.retire(asked)
    assert (answer.outcome, answer.units, answer.next_holding_id) == (Outcome.RETIRED, ((78001, 79000),), None)
    assert await isometric.look_up(asked) == answer
    assert await isometric.list_holdings() == []


async def test_the_size_says_whether_the_last_number_is_included(
    populated_db: Database, network: Network, settings: Settings
) -> None:
    registry = IsometricServer(populated_db, ManualClock(NOW), network, includes_last=False)
    asked = ask(await registry.deposit(SERIAL), 10)
    async with network.serving(registry.routes) as url:
        isometric = Isometric(settings_for(settings, url))
        [holding] = await isometric.list_holdings()
        assert holding.units == ((78001, 79000),)
        assert (await isometric.retire(asked)).units == ((78001, 78010),)


async def test_many_batches_are_read_page_by_page(isometric: Isometric, registry: IsometricServer) -> None:
    ids = {await registry.deposit(f"ISO-1-BSTORE-GBR-F5X7-2024-{n}001-{n}900") for n in range(1, 102)}
    assert {each.id for each in await isometric.list_holdings()} == ids


@pytest.mark.parametrize(
    ("fault", "outcome"),
    [
        (Fault.LOST, Outcome.UNKNOWN),
        (Fault.ANSWER_LOST, Outcome.UNKNOWN),
        (Fault.LATE, Outcome.UNKNOWN),
        (Fault.TIMED_OUT, Outcome.UNKNOWN),
        (Fault.DOUBLED, Outcome.RETIRED),
    ],
)
async def test_the_same_request_again_retires_once(
    isometric: Isometric, registry: IsometricServer, fault: Fault, outcome: Outcome
) -> None:
    asked = ask(await registry.deposit(SERIAL), 5)
    registry.network.script["POST"].append(fault)
    assert (await isometric.retire(asked)).outcome is outcome
    await registry.network.settle()
    found = await isometric.look_up(asked)
    assert found.outcome is (Outcome.NOT_FOUND if fault is Fault.LOST else Outcome.RETIRED) or fault is Fault.TIMED_OUT
    again = await isometric.retire(asked)
    assert (again.outcome, again.units) == (Outcome.RETIRED, ((78001, 78005),))
    [left] = await isometric.list_holdings()
    assert left.unit_count == 995


@pytest.mark.parametrize(("status", "code"), [(401, UNAUTHORISED), (403, UNAUTHORISED), (429, "too_many_requests")])
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_a_request_that_is_not_served_has_retired_nothing(
    isometric: Isometric, registry: IsometricServer, status: int, code: str, method: str
) -> None:
    asked = ask(await registry.deposit(SERIAL), 5)
    registry.network.refusals = (status,)
    registry.network.script[method].append(Fault.REFUSED)
    answer = await isometric.retire(asked)
    assert (answer.outcome, answer.code) == (Outcome.UNAVAILABLE, code)
    assert (await isometric.look_up(asked)).outcome is Outcome.NOT_FOUND


@pytest.mark.parametrize("status", [302, 404, 405, 408, 409, 500, 503])
async def test_other_answers_never_count_as_refused(
    isometric: Isometric, registry: IsometricServer, status: int
) -> None:
    """What a proxy or a wrong address answers says nothing about the credits."""
    asked = ask(await registry.deposit(SERIAL), 5)
    registry.network.refusals = (status,)
    registry.network.script["POST"].append(Fault.REFUSED)
    answer = await isometric.retire(asked)
    assert answer.outcome is (Outcome.UNAVAILABLE if status in {404, 405} else Outcome.UNKNOWN)


async def test_refusals(isometric: Isometric, registry: IsometricServer) -> None:
    batch_id = await registry.deposit(SERIAL)
    too_many = await isometric.retire(ask(batch_id, 1001))
    assert (too_many.outcome, too_many.code, too_many.is_final) == (Outcome.DECLINED, INSUFFICIENT, True)
    unknown = await isometric.retire(ask("ctb_0000000000000000", 1))
    assert (unknown.outcome, unknown.code) == (Outcome.DECLINED, HOLDING_UNKNOWN)
    refused = await isometric.retire(ask(batch_id, 1, beneficiary="Registry Declined"))
    assert (refused.outcome, refused.code, refused.is_final) == (Outcome.DECLINED, "refused", False)
    assert refused.message == "The batch cannot be retired. (status 422)"


async def test_a_batch_that_somebody_else_has_used(isometric: Isometric, registry: IsometricServer) -> None:
    batch_id = await registry.deposit(SERIAL)
    await registry.retire_for_another(batch_id, 400)
    for answer in (await isometric.retire(ask(batch_id, 5)), await isometric.look_up(ask(batch_id, 5))):
        assert (answer.outcome, answer.code, answer.is_final) == (Outcome.DECLINED, HOLDING_USED, True)
        [left] = await isometric.list_holdings()
        assert (answer.next_holding_id, left.unit_count) == (left.id, 600)


async def test_what_is_retired_and_cannot_be_described_is_pending(
    isometric: Isometric, registry: IsometricServer
) -> None:
    asked = ask(await registry.deposit(SERIAL), 5)
    registry.network.script["GET"] += [None, Fault.REFUSED]
    answer = await isometric.retire(asked)
    assert (answer.outcome, answer.units) == (Outcome.PENDING, ())
    found = await isometric.look_up(replace(asked, registry_reference=answer.registry_reference))
    assert (found.outcome, found.units) == (Outcome.RETIRED, ((78001, 78005),))


def required_fields(type_: type, document: Any) -> Iterator[list[Any]]:
    """Where a document has the fields that the adapter requires, also those of the objects in it."""
    for each in msgspec.structs.fields(type_):
        if each.required:
            yield [each.encode_name]
        inner, value = each.type, document[each.encode_name]
        if get_origin(inner) is list:
            inner, value = get_args(inner)[0], value[0]
            path = [each.encode_name, 0]
        else:
            path = [each.encode_name]
        if isinstance(inner, type) and issubclass(inner, msgspec.Struct):
            yield from ([*path, *rest] for rest in required_fields(inner, value))


def without(document: Any, path: Sequence[Any]) -> Any:
    changed = copy.deepcopy(document)
    place = changed
    for step in path[:-1]:
        place = place[step]
    del place[path[-1]]
    return changed


async def test_the_adapter_requires_only_what_the_interface_promises(
    isometric: Isometric, registry: IsometricServer
) -> None:
    """And an answer that lacks it is not read as something else."""
    await isometric.retire(ask(await registry.deposit(SERIAL), 3))
    await isometric.list_holdings()
    await isometric.list_movements(NOW)
    await isometric.read_balance()
    read: dict[Any, Any] = {
        OrganisationCreditBalance: _Balances,
        CreditBatchPage: _CreditBatchPage,
        CreditBatches: _CreditBatches,
        CreditBatch: _CreditBatch,
        RetirementPage: _RetirementPage,
        Retirement: _Retirement,
    }
    seen = set()
    for method, path, document in registry.answers:
        promised = answer_type(method, path)
        for field in required_fields(read[promised], document):
            seen.add((promised, *field))
            changed = without(document, field)
            assert find_breach(method, path, changed), f"{path} need not have {field}"
            with pytest.raises(NotRead):
                convert(changed, read[promised])
    assert {each[0] for each in seen} == read.keys()
    assert len(seen) > 40


async def test_a_token_that_is_not_accepted(registry: IsometricServer, network: Network, settings: Settings) -> None:
    batch_id = await registry.deposit(SERIAL)
    async with network.serving(registry.routes) as url:
        isometric = Isometric(settings_for(settings, url, "expired"))
        answer = await isometric.retire(ask(batch_id, 5))
        assert (answer.outcome, answer.code) == (Outcome.UNAVAILABLE, UNAUTHORISED)
        assert (await isometric.look_up(ask(batch_id, 5))).outcome is Outcome.UNKNOWN
        with pytest.raises(NotRead, match="does not accept the credentials"):
            await isometric.list_holdings()


def test_a_time_without_an_offset_is_not_read() -> None:
    made = {"id": "ret_1", "credit_batch_size_total": {"credit_kgs": 1}, "url": "", "notes": None}
    assert convert({**made, "retired_at": "2026-03-01T10:00:00Z"}, _Retirement).retired_at.tzinfo is not None
    with pytest.raises(NotRead):
        convert({**made, "retired_at": "2026-03-01T10:00:00"}, _Retirement)


async def test_a_registry_that_is_down(settings: Settings) -> None:
    isometric = Isometric(settings_for(settings, "http://127.0.0.1:1"))
    answer = await isometric.retire(ask("ctb_0000000000000000", 5))
    assert answer == Answer(outcome=Outcome.UNAVAILABLE, message="The registry was not reached: ClientConnectorError.")
    assert (await isometric.look_up(ask("ctb_0000000000000000", 5))).outcome is Outcome.UNKNOWN


async def test_requests_are_sent_one_after_the_other(isometric: Isometric, registry: IsometricServer) -> None:
    ids = [await registry.deposit(f"ISO-1-BSTORE-GBR-F5X7-2024-{n}001-{n}900") for n in range(1, 6)]
    asked = [ask(id_, 2, reference=f"T-000000000000000{n}") for n, id_ in enumerate(ids)]
    answers = await asyncio.gather(*(isometric.retire(each) for each in asked))
    assert {each.outcome for each in answers} == {Outcome.RETIRED}
