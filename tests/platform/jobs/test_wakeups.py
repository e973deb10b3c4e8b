"""A notification wakes the jobs concerned, and no others."""

import asyncio

import pytest

from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.apps.wiring.wakeups import WAKEUPS, connect_jobs
from tonne.platform.events.log import NewEvent, append
from tonne.platform.events.notification import EVERYTHING, Notification, PendingWork, Stream, WorkKind
from tonne.platform.jobs.loop import Job, run_jobs, wake_jobs
from tonne.platform.values.context import utc_now


def _woken(services: Services, notification: Notification) -> set[str]:
    jobs = services.jobs()
    wake_jobs(jobs, notification)
    return {job.name for job in jobs if job.wake.is_set()}


def test_every_job_states_what_wakes_it(services: Services) -> None:
    assert {job.name for job in services.jobs()} == set(WAKEUPS)


def test_every_kind_of_work_has_a_job() -> None:
    assert set().union(*(wakeups.wakes_on for wakeups in WAKEUPS.values())) == set(WorkKind)


@pytest.mark.parametrize(
    ("kinds", "jobs"),
    [
        ({WorkKind.EVENTS}, {"deliver_webhooks"}),
        ({WorkKind.TEST_CHARGES}, {"charge_test_cards", "charge_test_invoices"}),
        ({WorkKind.PAID_ORDERS, WorkKind.MAILS}, {"allocate_orders", "issue_documents", "send_mails"}),
        (set(), set()),
    ],
)
def test_only_the_jobs_concerned_wake(services: Services, kinds: set[WorkKind], jobs: set[str]) -> None:
    assert _woken(services, Notification(frozenset(kinds))) == jobs


def test_a_notification_of_an_older_release_wakes_all_jobs(services: Services) -> None:
    assert _woken(services, Notification.parse("")) == {job.name for job in services.jobs()}


def test_a_notification_of_only_unknown_kinds_wakes_no_job(services: Services) -> None:
    assert _woken(services, Notification.parse('{"kinds":["teleports"]}')) == set()


def test_a_job_learns_which_streams_got_events_before_it_wakes() -> None:
    heard: list[Notification] = []

    async def run_once() -> bool:
        return False

    job = Job("deliver", run_once, kinds=frozenset({WorkKind.EVENTS}), expect=heard.append)
    streams = frozenset({Stream("org_1", "test")})
    wake_jobs([job], Notification(frozenset({WorkKind.EVENTS}), streams))
    wake_jobs([job], Notification(frozenset({WorkKind.MAILS})))
    wake_jobs([job], EVERYTHING)
    assert [each.streams for each in heard] == [streams, frozenset()]


@pytest.mark.parametrize(
    ("name", "kinds"), [("mail_credit_notes", {WorkKind.MAILS}), ("close_units", {WorkKind.RETIREMENTS})]
)
async def test_a_job_that_worked_notifies_of_what_became_due(
    services: Services, name: str, kinds: set[WorkKind]
) -> None:
    left = [False, True]

    async def work() -> bool:
        return left.pop()

    [job] = connect_jobs([Job(name, work)], services.notifier)
    assert await job.run_once()
    assert services.notifier._pending.notification().kinds == frozenset(kinds)
    services.notifier._pending = PendingWork.none()
    assert not await job.run_once()
    assert not services.notifier._pending, "an idle run makes nothing due"


async def test_jobs_that_are_not_concerned_sleep_on() -> None:
    stop, idle, woken = asyncio.Event(), asyncio.Barrier(3), asyncio.Event()
    runs = {"deliver": 0, "mail": 0}

    def job(name: str, kind: WorkKind) -> Job:
        async def run_once() -> bool:
            runs[name] += 1
            if runs[name] == 1:
                await idle.wait()
            else:
                woken.set()
            return False

        return Job(name, run_once, kinds=frozenset({kind}))

    jobs = [job("deliver", WorkKind.EVENTS), job("mail", WorkKind.MAILS)]
    running = asyncio.create_task(run_jobs(jobs, stop, 60.0))
    await idle.wait()
    wake_jobs(jobs, Notification(frozenset({WorkKind.EVENTS})))
    await asyncio.wait_for(woken.wait(), 10)
    stop.set()
    await running
    assert runs == {"deliver": 2, "mail": 1}


async def test_a_job_names_the_streams_that_it_appended_to(services: Services, world: World) -> None:
    scope = world.ours_test.scope

    async def append_one() -> bool:
        async with services.database.transaction() as tx:
            await append(tx, scope, [NewEvent("order.received", "ord_1", b"{}")], utc_now())
        return True

    [job] = connect_jobs([Job("allocate_orders", append_one)], services.notifier)
    services.notifier._pending = PendingWork.none()
    await job.run_once()
    assert services.notifier._pending.streams == {Stream(scope.organisation_id, scope.mode)}
    assert not services.notifier._pending.any_stream
