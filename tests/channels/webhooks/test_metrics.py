"""Metrics of deliveries: outcomes, latency and lost leases, without any id."""

import asyncio

from tests.channels.webhooks.stage import Stage
from tests.support.receivers import Receiver, after, reply
from tests.support.samples import Samples, parse_samples, total
from tonne.channels.webhooks.delivery.deliver import Deliverer
from tonne.platform.process.telemetry.metrics_text import render


def _samples(deliverer: Deliverer) -> Samples:
    return parse_samples(render(metric.snapshot() for metric in deliverer.measured.metrics).decode())


async def test_operations_12_attempts_events_and_latency_are_measured(stage: Stage, receiver: Receiver) -> None:
    await stage.register(receiver.url)
    receiver.next(reply(500))
    await stage.emit(stage.one, stage.two)
    await stage.execute("UPDATE events SET sequence = sequence - interval '90 seconds'")
    async with stage.working() as worker:
        await stage.idle()
    samples = _samples(worker.services.deliverer)
    assert total(samples, "tonne_webhook_attempts_total", mode="test", outcome="status_refused") == 1
    assert total(samples, "tonne_webhook_attempts_total", mode="test", outcome="delivered") >= 1
    assert total(samples, "tonne_webhook_events_total", mode="test") == 2
    assert total(samples, "tonne_webhook_delivery_seconds_bucket", le="60") == 0
    assert total(samples, "tonne_webhook_delivery_seconds_bucket", le="300") >= 1
    assert total(samples, "tonne_webhook_request_seconds_count") == len(receiver.deliveries)
    assert total(samples, "tonne_webhook_leases_lost_total") == 0


async def test_operations_12_a_lost_lease_is_counted(stage: Stage, receiver: Receiver) -> None:
    """While the request is in flight, another worker claims the webhook."""
    hook = await stage.register(receiver.url)
    release = asyncio.Event()
    receiver.next(after(release))
    await stage.emit(stage.one)
    async with stage.working() as worker:
        deliverer = worker.services.deliverer

        async def is_lost() -> bool:
            return total(_samples(deliverer), "tonne_webhook_leases_lost_total", reason="superseded") == 1

        await receiver.count(1)
        await stage.execute("UPDATE webhooks SET lease_token = lease_token + 1 WHERE id = $1", hook.id)
        release.set()
        await stage.until(is_lost)


async def test_a_webhook_that_was_disabled_meanwhile_has_not_lost_its_lease(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    release = asyncio.Event()
    receiver.next(after(release))
    await stage.emit(stage.one)
    async with stage.working() as worker:
        await receiver.count(1)
        await stage.execute("UPDATE webhooks SET enabled = false WHERE id = $1", hook.id)
        release.set()
        await stage.until(lambda: stage.attempts(hook))
    assert total(_samples(worker.services.deliverer), "tonne_webhook_leases_lost_total") == 0
