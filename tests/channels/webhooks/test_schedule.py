"""The back-off schedule, and that delivery follows it."""

import asyncio
import itertools

import pytest

from tests.channels.webhooks.stage import Stage
from tests.support.receivers import OK, Receiver, reply
from tonne.channels.webhooks.delivery.schedule import (
    ALERT_AFTER,
    BACKOFF_S,
    MAX_BATCH,
    MAX_BATCH_BYTES,
    SPREAD,
    pause_after,
)

MINUTE, HOUR = 60, 3600
SCHEDULE = [1, 2, 5, 15, 30, MINUTE, 2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 30 * MINUTE, HOUR]


def test_the_limits_and_the_schedule_are_the_documented_ones() -> None:
    assert list(BACKOFF_S) == SCHEDULE
    assert SPREAD == 0.2
    assert [span.total_seconds() for span in ALERT_AFTER] == [HOUR, 24 * HOUR]
    assert (MAX_BATCH, MAX_BATCH_BYTES) == (100, 524_288)


@pytest.mark.parametrize("time_scale", [1.0, 0.01])
@pytest.mark.parametrize("failures", [*range(1, 13), 100, 100_000])
def test_every_pause_is_within_a_fifth_of_its_step_and_the_last_step_repeats(failures: int, time_scale: float) -> None:
    step = SCHEDULE[min(failures, len(SCHEDULE)) - 1] * time_scale
    pauses = [pause_after(failures, time_scale).total_seconds() for _ in range(300)]
    assert 0.8 * step <= min(pauses) + 1e-6
    assert max(pauses) <= 1.2 * step + 1e-6
    # With jitter.
    assert min(pauses) < 0.9 * step < 1.1 * step < max(pauses)


async def test_the_pauses_between_attempts_follow_the_schedule(stage: Stage, receiver: Receiver) -> None:
    receiver.next(*[reply(500)] * 5)
    hook = await stage.register(receiver.url)
    await stage.emit()
    scale = 0.02
    await stage.deliver(stage.change(webhook_time_scale=scale))
    assert len(receiver.deliveries) == 6
    times = [attempt["at"] for attempt in await stage.attempts(hook)]
    gaps = [(after - before).total_seconds() for before, after in itertools.pairwise(times)]
    # Never sooner than the shortest pause; how much later depends on the machine.
    assert all(gap >= 0.8 * scale * step - 0.001 for gap, step in zip(gaps, SCHEDULE, strict=False))
    assert gaps[4] < 1.2 * scale * SCHEDULE[4] + 5


async def test_a_success_restarts_the_schedule(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    receiver.next(reply(500), reply(500), OK)
    await stage.emit()
    await stage.deliver()
    row = await stage.row(hook)
    assert (row["failures"], row["head_refusals"], row["failing_since"], row["batch_limit"]) == (0, 0, None, 2)
    receiver.rule = lambda _: reply(500)
    await stage.emit()
    pauses = []

    async def failed_once() -> bool:
        [row] = await stage.fetch(
            "SELECT failures, extract(epoch FROM next_attempt_at - failing_since)::float8 AS pause_s FROM webhooks"
        )
        pauses.append(row["pause_s"])
        return bool(row["failures"] == 1)

    async with stage.working(stage.change(webhook_time_scale=1)):
        await stage.until(failed_once)
    assert 0.79 <= pauses[-1] <= 1.21


async def test_a_failing_webhook_is_not_claimed_before_its_next_attempt_is_due(
    stage: Stage, receiver: Receiver
) -> None:
    receiver.rule = lambda _: reply(500)
    await stage.register(receiver.url)
    await stage.emit()
    deliverer = stage.worker(stage.change(webhook_time_scale=1)).services.deliverer
    await receiver.count(1)
    for _ in range(20):
        await deliverer.run_once()
        if deliverer._busy:
            await asyncio.wait(deliverer._busy)
    # The second attempt is due most of a second after the first, however often the job runs.
    assert len(receiver.deliveries) == 1 or receiver.deliveries[1].at_s - receiver.deliveries[0].at_s > 0.75
