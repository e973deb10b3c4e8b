"""The event log over HTTP: a client catches up without gaps. Notifications wake workers."""

import asyncio
from collections.abc import AsyncIterator, Callable
from functools import partial
from typing import Any
from urllib.parse import quote

import pytest

from tests.conftest import Server
from tests.support.api_client import ApiClient, codes, fields
from tests.support.events import stored_events
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.events.log import NewEvent, append
from tonne.platform.events.notification import Notification, WorkKind, listen
from tonne.platform.jobs.loop import Job, run_jobs, wake_jobs
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope, utc_now
from tonne.platform.values.paging import Position, make_cursor

WITHIN_S = 20.0


async def emit(services: Services, *accounts: Scope, event_type: str = "thing.made") -> list[str]:
    """Append one event each, in this order; returns their ids."""
    ids = []
    for account in accounts:
        async with services.database.transaction() as tx:
            await append(tx, account, [NewEvent(event_type, "thing_1", '{"é":1.10}'.encode())], utc_now())
            ids.append(
                await tx.fetchval(
                    "SELECT id FROM events WHERE organisation_id = $1 AND mode = $2 ORDER BY position DESC LIMIT 1",
                    account.organisation_id,
                    account.mode,
                )
            )
    return ids


@pytest.fixture
def one(world: World) -> Scope:
    return world.ours_test.scope


@pytest.fixture
def two(world: World) -> Scope:
    scope = world.ours_test.scope
    return Scope(scope.organisation_id, world.ours_test.client_account_id, scope.mode)


async def listed(api: ApiClient, query: str = "") -> list[str]:
    answer = await api.get(f"/v1/events?limit=100{query}")
    assert answer.status_code == 200, answer.text
    return [event["event_id"] for event in answer.json()["data"]]


async def test_an_order_placed_over_http_is_in_the_log_newest_first(api: ApiClient) -> None:
    order = await api.order(metadata={"b": 1, "a": 2})
    events = (await api.get("/v1/events")).json()
    assert (events["has_more"], events["next_cursor"]) == (False, None)
    assert [event["event_type"] for event in events["data"]] == ["order.placed", "order.received"]
    assert events["data"][0]["data"]["order"] == order
    assert list(events["data"][0]) == ["api_version", "event_id", "account_id", "event_type", "sequence", "data"]


async def test_filters_narrow_the_list_and_can_be_combined(
    api: ApiClient, services: Services, one: Scope, two: Scope
) -> None:
    made = await emit(services, one, two, one)
    gone = await emit(services, two, one, event_type="thing.gone")
    assert await listed(api) == [*reversed(gone), *reversed(made)]
    assert await listed(api, "&order=asc") == [*made, *gone]
    assert await listed(api, f"&account_id={two.account_id}&order=asc") == [made[1], gone[0]]
    assert await listed(api, "&event_type=thing.gone") == gone[::-1]
    assert await listed(api, f"&event_type=thing.gone&account_id={one.account_id}") == [gone[1]]
    for query in ("account_id=acc_unknown", "event_type=thing.unknown", "account_id=%27", "event_type=%25"):
        assert await listed(api, f"&{query}") == []


async def test_a_client_catches_up_from_the_last_sequence_it_handled(
    api: ApiClient, services: Services, one: Scope, two: Scope
) -> None:
    ids = await emit(services, one, two, one, two, one)
    events = (await api.get("/v1/events?order=asc")).json()["data"]
    for n, event in enumerate(events):
        after = quote(event["sequence"])
        assert await listed(api, f"&after_sequence={after}&order=asc") == ids[n + 1 :]
        assert await listed(api, f"&after_sequence={after}") == ids[:n:-1]
    assert await listed(api, "&after_sequence=2000-01-01T00:00:00Z&order=asc") == ids
    assert await listed(api, "&after_sequence=2999-12-31T23:59:59.999Z") == []
    third = quote(events[2]["sequence"])
    assert await listed(api, f"&after_sequence={third}&account_id={two.account_id}") == [ids[3]]


@pytest.mark.parametrize("filtered", [False, True])
async def test_pages_oldest_first_have_no_gap_and_include_what_arrives_meanwhile(
    api: ApiClient, services: Services, one: Scope, two: Scope, filtered: bool
) -> None:
    ids = await emit(services, *[one, two] * 6)
    query = f"&order=asc&account_id={one.account_id}" if filtered else "&order=asc"
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = (await api.get(f"/v1/events?limit=5{query}{after}")).json()
        seen += [event["event_id"] for event in page["data"]]
        after = _next(page)
        if after is not None and len(ids) < 20:
            ids += await emit(services, one, two)
    assert seen == (ids[::2] if filtered else ids)


@pytest.mark.parametrize("filtered", [False, True])
async def test_pages_newest_first_have_no_gap_and_no_repeat_while_events_arrive(
    api: ApiClient, services: Services, one: Scope, two: Scope, filtered: bool
) -> None:
    ids = await emit(services, *[one, two] * 6)
    query = f"&account_id={one.account_id}" if filtered else ""
    seen: list[str] = []
    after: str | None = ""
    while after is not None:
        page = (await api.get(f"/v1/events?limit=5{query}{after}")).json()
        seen += [event["event_id"] for event in page["data"]]
        # What is newer than the first page belongs to none of the later ones.
        await emit(services, one, two)
        after = _next(page)
    assert seen == (ids[::2] if filtered else ids)[::-1]


def _next(page: dict[str, Any]) -> str | None:
    assert page["has_more"] is (page["next_cursor"] is not None)
    return f"&after={page['next_cursor']}" if page["has_more"] else None


async def test_the_last_full_page_says_that_nothing_follows(api: ApiClient, services: Services, one: Scope) -> None:
    await emit(services, *[one] * 4)
    for order in ("asc", "desc"):
        first = (await api.get(f"/v1/events?limit=2&order={order}")).json()
        last = (await api.get(f"/v1/events?limit=2&order={order}&after={first['next_cursor']}")).json()
        assert (len(last["data"]), last["has_more"], last["next_cursor"]) == (2, False, None)


REFUSED = [
    ("limit=0", "pagination_limit_invalid", "limit"),
    ("limit=101", "pagination_limit_invalid", "limit"),
    ("limit=ten", "pagination_limit_invalid", "limit"),
    ("after=nonsense", "pagination_cursor_invalid", "after"),
    ("after=", "pagination_cursor_invalid", "after"),
    ("order=up", "validation_error", "order"),
    ("order=", "validation_error", "order"),
    ("order=asc&order=desc", "validation_error", "order"),
    ("after_sequence=yesterday", "event_sequence_invalid", "after_sequence"),
    ("after_sequence=", "event_sequence_invalid", "after_sequence"),
    ("after_sequence=2026-02-30T10:00:00.000Z", "event_sequence_invalid", "after_sequence"),
    ("after_sequence=2026-11-15T10:00:00.000%2B00:00", "event_sequence_invalid", "after_sequence"),
    ("after_sequence=2026-11-15T10:00:00.0000001Z", "event_sequence_invalid", "after_sequence"),
    ("after_sequence=0000-01-01T00:00:00Z", "event_sequence_invalid", "after_sequence"),
    ("after_sequence=%D9%A2%D9%A0%D9%A2%D9%A6-11-15T10:00:00Z", "event_sequence_invalid", "after_sequence"),
    ("account_id=%00", "validation_error", "account_id"),
]


async def test_a_query_that_cannot_be_read_is_refused_with_its_code_and_field(api: ApiClient) -> None:
    for query, code, field in REFUSED:
        answer = await api.get(f"/v1/events?{query}")
        assert (answer.status_code, codes(answer), fields(answer)) == (400, [code], [field]), query


async def test_a_cursor_is_valid_for_its_own_list_only(
    api: ApiClient, services: Services, world: World, one: Scope, two: Scope
) -> None:
    await emit(services, *[one, two] * 3)
    cursor = (await api.get("/v1/events?limit=2")).json()["next_cursor"]
    for other in ("&order=asc", f"&account_id={one.account_id}", "&event_type=thing.made"):
        answer = await api.get(f"/v1/events?after={cursor}{other}")
        assert (answer.status_code, codes(answer)) == (400, ["pagination_cursor_invalid"])
    for stranger in (world.theirs_test, world.ours_live):
        answer = await api.as_key(stranger.key).get(f"/v1/events?after={cursor}")
        assert (answer.status_code, codes(answer)) == (400, ["pagination_cursor_invalid"])


async def test_a_forged_cursor_is_refused(api: ApiClient, services: Services, one: Scope) -> None:
    """The format of a cursor is no secret: a forged one must cause a client error, not a server error."""
    await emit(services, one)
    list_name = f"events {one.organisation_id} {one.mode} None None None None"
    for position in ("", "x", "-1", "9" * 30, " 1", "1_0", "1.5"):
        forged = make_cursor(Position(utc_now(), position), list_name)
        answer = await api.get(f"/v1/events?after={forged}")
        assert answer.status_code == 400, position
        assert codes(answer) == ["pagination_cursor_invalid"]


async def test_an_event_is_read_by_its_id_with_the_bytes_of_the_log(
    api: ApiClient, services: Services, one: Scope
) -> None:
    [event_id] = await emit(services, one)
    answer = await api.get(f"/v1/events/{event_id}")
    async with services.database.connection() as connection:
        [stored] = await stored_events(connection)
    assert answer.headers["content-type"] == "application/json"
    assert answer.content == stored.payload
    assert '{"é":1.10}' in answer.text


async def test_an_unknown_event_and_one_of_another_organisation_get_the_same_response(
    api: ApiClient, services: Services, world: World
) -> None:
    [ours] = await emit(services, world.ours_test.scope)
    foreign = await emit(services, world.theirs_test.scope, world.ours_live.scope)
    answers = [await api.get(f"/v1/events/{event_id}") for event_id in (*foreign, "evt_unknown", "%00", "x" * 300)]
    assert {(answer.status_code, *codes(answer)) for answer in answers} == {(404, "event_not_found")}
    assert len({str(answer.json()["error"]) for answer in answers}) == 1
    assert await listed(api) == [ours]
    assert await listed(api.as_key(world.theirs_test.key)) == foreign[:1]
    assert await listed(api.as_key(world.ours_live.key)) == foreign[1:]


async def test_filtering_by_an_account_of_another_organisation_returns_nothing(
    api: ApiClient, services: Services, world: World
) -> None:
    await emit(services, world.theirs_test.scope, world.ours_live.scope)
    for scope in (world.theirs_test.scope, world.ours_live.scope):
        assert await listed(api, f"&account_id={scope.account_id}") == []


@pytest.fixture
async def database_url(services: Services, server: Server) -> str:
    async with services.database.connection() as connection:
        return server.url(await connection.fetchval("SELECT current_database()"))


class Notifications:
    """Counts notifications."""

    def __init__(self) -> None:
        self.count = 0
        self._came = asyncio.Condition()
        self._tasks: set[asyncio.Task[None]] = set()

    def hear(self, _: Notification) -> None:
        task = asyncio.create_task(self._note())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _note(self) -> None:
        async with self._came:
            self.count += 1
            self._came.notify_all()

    async def more_than(self, count: int) -> None:
        async with self._came:
            await asyncio.wait_for(self._came.wait_for(lambda: self.count > count), WITHIN_S)


async def until_listening(services: Services, but: int = 0) -> int:
    """The server process of the current listener; `but` is one that has ended."""
    async with asyncio.timeout(WITHIN_S):
        while True:
            async with services.database.connection() as connection:
                pid: int | None = await connection.fetchval(
                    "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND state = 'idle' "
                    "AND query LIKE 'LISTEN%' AND pid <> $1",
                    but,
                )
            if pid is not None:
                return pid
            await asyncio.sleep(0.01)


@pytest.fixture
async def notifications(services: Services, database_url: str) -> AsyncIterator[Notifications]:
    notifications, stop = Notifications(), asyncio.Event()
    listening = asyncio.create_task(listen(database_url, Settings(), notifications.hear, stop))
    await until_listening(services)
    yield notifications
    stop.set()
    await asyncio.wait_for(listening, WITHIN_S)


async def test_an_order_placed_over_http_notifies_listeners(api: ApiClient, notifications: Notifications) -> None:
    await api.order()
    await notifications.more_than(0)


async def test_many_orders_at_once_cause_few_notifications(api: ApiClient, notifications: Notifications) -> None:
    await asyncio.gather(*(api.order() for _ in range(20)))
    await notifications.more_than(0)
    assert notifications.count < 20


async def test_a_refused_order_causes_no_notification(api: ApiClient, notifications: Notifications) -> None:
    assert (await api.post("/v1/orders/by-mass", {"mass": {"amount": "-1", "unit": "t"}})).status_code == 400
    await api.order()
    await notifications.more_than(0)
    assert notifications.count == 1


async def test_a_listener_reconnects_after_a_lost_connection(
    services: Services, api: ApiClient, notifications: Notifications
) -> None:
    pid = await until_listening(services)
    async with services.database.connection() as connection:
        await connection.execute("SELECT pg_terminate_backend($1)", pid)
    await until_listening(services, but=pid)
    await api.order()
    await notifications.more_than(0)


async def test_a_listener_without_a_database_stops_when_asked_to() -> None:
    stop = asyncio.Event()
    listening = asyncio.create_task(listen("postgresql://nobody@127.0.0.1:1/none", Settings(), lambda _: None, stop))
    await asyncio.sleep(0)
    stop.set()
    await asyncio.wait_for(listening, WITHIN_S)


class PollCounter:
    """A job that is idle and counts its polls."""

    def __init__(self) -> None:
        self.count = 0
        self.polled = asyncio.Event()

    async def run_once(self) -> bool:
        self.count += 1
        self.polled.set()
        return False

    async def again(self) -> None:
        await asyncio.wait_for(self.polled.wait(), WITHIN_S)


@pytest.fixture
async def sleeper() -> AsyncIterator[tuple[PollCounter, Job]]:
    """A worker whose job has polled once and polls again in a minute."""
    polls = PollCounter()
    job = Job("count_polls", polls.run_once, kinds=frozenset({WorkKind.EVENTS}))
    stop = asyncio.Event()
    running = asyncio.create_task(run_jobs([job], stop, 60.0))
    await polls.again()
    polls.polled.clear()
    yield polls, job
    stop.set()
    await asyncio.wait_for(running, WITHIN_S)


async def test_a_sleeping_job_polls_at_once_when_it_is_woken(sleeper: tuple[PollCounter, Job]) -> None:
    polls, job = sleeper
    job.wake.set()
    await polls.again()
    assert polls.count == 2


async def test_an_order_wakes_a_sleeping_worker(
    api: ApiClient, services: Services, database_url: str, sleeper: tuple[PollCounter, Job]
) -> None:
    polls, job = sleeper
    stop = asyncio.Event()
    listening = asyncio.create_task(listen(database_url, Settings(), partial(wake_jobs, [job]), stop))
    await until_listening(services)
    # Committed before the listener was connected.
    await polls.again()
    polls.polled.clear()
    await api.order()
    await polls.again()
    stop.set()
    await asyncio.wait_for(listening, WITHIN_S)


async def test_a_job_that_fails_does_not_end_the_worker() -> None:
    stop = asyncio.Event()
    outcomes: list[Callable[[], bool]] = [lambda: bool(1 // 0), lambda: True, lambda: False]
    done = asyncio.Event()

    async def run_once() -> bool:
        if not outcomes:
            done.set()
            return False
        return outcomes.pop(0)()

    running = asyncio.create_task(run_jobs([Job("stumble", run_once)], stop, 0.001))
    await asyncio.wait_for(done.wait(), WITHIN_S)
    stop.set()
    await running
