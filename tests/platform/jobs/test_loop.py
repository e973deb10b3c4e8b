"""The worker loop, with jobs made for the tests."""

import asyncio
import errno
import itertools
from collections.abc import Awaitable, Callable

import asyncpg
import pytest
from structlog.testing import capture_logs

from tests.support.samples import parse_samples, total
from tonne.platform.db import errors as database_errors
from tonne.platform.jobs import loop
from tonne.platform.jobs.loop import Job, run_jobs
from tonne.platform.jobs.metrics import JobMetrics
from tonne.platform.process.telemetry.metrics_text import render

# Longer than the time limit of a test: a test that needs a second poll fails.
FOREVER_S = 60.0


async def _run(*jobs: Job, stop: asyncio.Event, poll_s: float = FOREVER_S) -> None:
    await asyncio.wait_for(run_jobs(jobs, stop, poll_s), 10)


async def test_a_job_runs_again_at_once_while_there_is_work() -> None:
    stop = asyncio.Event()
    left = [True] * 500

    async def work() -> bool:
        if left:
            return left.pop()
        stop.set()
        return False

    await _run(Job("work", work), stop=stop)
    assert left == []


async def test_stopping_ends_a_waiting_loop_without_delay() -> None:
    stop, idle = asyncio.Event(), asyncio.Event()

    async def nothing() -> bool:
        idle.set()
        return False

    running = asyncio.create_task(_run(Job("nothing", nothing), stop=stop))
    await idle.wait()
    stop.set()
    await asyncio.wait_for(running, 10)


async def test_work_that_is_under_way_is_finished_before_the_loop_ends() -> None:
    stop, begun, may_end = asyncio.Event(), asyncio.Event(), asyncio.Event()
    finished = []

    async def slow() -> bool:
        begun.set()
        await may_end.wait()
        finished.append(True)
        return True

    running = asyncio.create_task(_run(Job("slow", slow), stop=stop))
    await begun.wait()
    stop.set()
    await asyncio.sleep(0)
    assert not running.done()
    may_end.set()
    await running
    assert finished == [True]


async def test_tasks_that_a_job_started_are_awaited_at_the_end() -> None:
    stop = asyncio.Event()
    order = []

    async def work() -> bool:
        order.append("work")
        stop.set()
        return False

    async def drain() -> None:
        order.append("drained")

    await _run(Job("work", work, drain), stop=stop)
    assert order == ["work", "drained"]


async def test_a_failing_job_is_retried_and_does_not_affect_others() -> None:
    stop = asyncio.Event()
    failures: list[int] = []
    rounds: list[int] = []

    async def failing() -> bool:
        failures.append(1)
        if len(failures) == 4:
            stop.set()
        raise RuntimeError("out of order")

    async def working() -> bool:
        rounds.append(1)
        await asyncio.sleep(0)
        return not stop.is_set()

    await _run(Job("failing", failing), Job("working", working), stop=stop, poll_s=0.001)
    assert len(failures) == 4
    assert len(rounds) > 4


@pytest.mark.parametrize(
    ("error", "outcome", "lines"),
    [
        (ConnectionRefusedError(), "unavailable", ["database_unavailable"]),
        (asyncpg.CannotConnectNowError("the database system is starting up"), "unavailable", ["database_unavailable"]),
        (OSError(errno.ENOSPC, "No space left on device"), "failed", ["job_failed"] * 40),
        (FileNotFoundError(errno.ENOENT, "No such file", "archive"), "failed", ["job_failed"] * 40),
    ],
)
async def test_operations_4_a_lost_database_is_one_line_and_no_failure_of_each_job(
    error: Exception, outcome: str, lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A short restart of the database logged 581 tracebacks, and opened a ticket for 34 of 42 jobs."""
    monkeypatch.setattr(database_errors, "_outage_logged_at", float("-inf"))
    stop, metrics, runs = asyncio.Event(), JobMetrics(), 0

    async def failing() -> bool:
        nonlocal runs
        runs += 1
        if runs == 40:
            stop.set()
        raise error

    with capture_logs() as logged:
        jobs = [Job(f"job {number}", failing) for number in range(40)]
        await asyncio.wait_for(run_jobs(jobs, stop, FOREVER_S, metrics), 60)
    assert [line["event"] for line in logged] == lines
    samples = parse_samples(render([metric.snapshot() for metric in metrics.metrics]).decode())
    assert total(samples, "tonne_job_runs_total", outcome=outcome) == 40


async def test_the_pause_grows_with_every_failure_in_a_row() -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    moments: list[float] = []

    async def failing() -> bool:
        moments.append(loop.time())
        if len(moments) == 6:
            stop.set()
        raise RuntimeError("out of order")

    await _run(Job("failing", failing), stop=stop, poll_s=0.005)
    pauses = [after - before for before, after in itertools.pairwise(moments)]
    # Doubled each time and spread by a fifth: the nth is at least 0.8 x 2^n times the poll interval.
    assert all(pause >= 0.8 * 0.005 * 2**n for n, pause in enumerate(pauses, start=1))


async def test_a_woken_job_does_not_wait_for_its_next_poll() -> None:
    stop, idle = asyncio.Event(), asyncio.Event()
    looks = []

    async def poll() -> bool:
        looks.append(1)
        idle.set()
        if len(looks) == 2:
            stop.set()
        return False

    job = Job("poll", poll)
    running = asyncio.create_task(_run(job, stop=stop))
    await idle.wait()
    job.wake.set()
    await running
    assert len(looks) == 2


async def test_a_wake_up_during_a_run_is_not_lost() -> None:
    """The work may have been committed after the job had polled."""
    stop = asyncio.Event()
    looks = []
    jobs: list[Job] = []

    async def poll() -> bool:
        looks.append(1)
        if len(looks) == 1:
            jobs[0].wake.set()
        else:
            stop.set()
        return False

    jobs.append(Job("poll", poll))
    await _run(*jobs, stop=stop)
    assert len(looks) == 2


async def test_nothing_runs_once_the_stop_is_set() -> None:
    stop = asyncio.Event()
    stop.set()
    ran: list[str] = []

    def job(name: str) -> Callable[[], Awaitable[bool]]:
        async def work() -> bool:
            ran.append(name)
            return True

        return work

    await _run(Job("a", job("a")), Job("b", job("b")), stop=stop)
    assert ran == []


def test_operations_1_a_job_that_fails_for_ever_ends_nothing() -> None:
    """A power of two beyond 2**1023 does not fit a float: the back-off itself must not fail."""
    assert {loop._back_off_s(RuntimeError(), failures, 1.0) for failures in range(5, 5000)} == {loop.MAX_PAUSE_S}


async def test_operations_1_notifications_do_not_cut_a_back_off_short() -> None:
    stop, failed = asyncio.Event(), asyncio.Event()
    runs = 0

    async def failing() -> bool:
        nonlocal runs
        runs += 1
        failed.set()
        raise RuntimeError("out of order")

    job = Job("failing", failing)
    running = asyncio.create_task(_run(job, stop=stop))
    await failed.wait()
    for _ in range(100):
        job.wake.set()
        await asyncio.sleep(0)
    stop.set()
    await running
    assert runs == 1


def test_operations_7_work_resumes_soon_after_the_database_is_back() -> None:
    away = ConnectionRefusedError("the database is down")
    assert loop._back_off_s(away, 500, 1.0) == loop.DATABASE_RETRY_S
    assert loop._back_off_s(RuntimeError(), 500, 1.0) == loop.MAX_PAUSE_S


async def test_operations_12_runs_are_counted_by_outcome() -> None:
    stop = asyncio.Event()
    metrics = JobMetrics()

    async def work() -> bool:
        step = next(steps)
        if step == "fail":
            raise RuntimeError(step)
        if step == "idle":
            stop.set()
        return step == "work"

    steps = iter(["work", "work", "fail", "idle"])
    await asyncio.wait_for(run_jobs([Job("work", work), Job("other", work_never)], stop, 0.001, metrics), 10)
    samples = parse_samples(render(metric.snapshot() for metric in metrics.metrics).decode())
    counted = {
        outcome: total(samples, "tonne_job_runs_total", job_name="work", outcome=outcome)
        for outcome in ("worked", "failed", "idle")
    }
    assert counted == {"worked": 2, "failed": 1, "idle": 1}
    assert total(samples, "tonne_job_run_seconds_count", job_name="work") == 3, "idle runs are not timed"
    assert total(samples, "tonne_job_runs_total", job_name="other", outcome="failed") == 0
    assert total(samples, "tonne_job_last_success_timestamp_seconds", job_name="work") > 1.7e9


async def work_never() -> bool:
    return False


async def test_a_job_that_finds_nothing_looks_less_often_until_it_finds_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tonne.platform.jobs.loop.STEADY_POLLS", 1)
    stop = asyncio.Event()
    looks: list[float] = []
    loop = asyncio.get_running_loop()

    async def find_nothing() -> bool:
        looks.append(loop.time())
        if len(looks) == 9:
            stop.set()
        return len(looks) == 6

    await _run(Job("idle", find_nothing), stop=stop, poll_s=0.05)
    pauses = [after - before for before, after in itertools.pairwise(looks)]
    # Each is spread by a fifth.
    for number, polls in enumerate((1, 2, 3, 4, 4, 0, 1, 2)):
        assert pauses[number] >= 0.8 * 0.05 * polls
    assert pauses[5] < 0.8 * 0.05, "it found something"


async def test_a_job_that_limits_itself_is_asked_at_every_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tonne.platform.jobs.loop.STEADY_POLLS", 1)
    stop = asyncio.Event()
    looks: list[float] = []
    loop = asyncio.get_running_loop()

    async def find_nothing() -> bool:
        looks.append(loop.time())
        if len(looks) == 6:
            stop.set()
        return False

    started = loop.time()
    await _run(Job("throttled", find_nothing, is_throttled=True), stop=stop, poll_s=0.05)
    assert looks[-1] - started < 0.05 * (1 + 2 + 3 + 4 + 4) * 0.8
