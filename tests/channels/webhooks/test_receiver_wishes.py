"""What receivers ask for: `Retry-After`, and no more requests (410)."""

import time

import msgspec
import pytest

from tests.channels.webhooks.stage import Stage
from tests.channels.webhooks.test_alerts import add_admins, mails, text_of
from tests.channels.webhooks.test_endpoints import put
from tests.support.api_client import ApiClient
from tests.support.receivers import OK, Receiver, reply
from tonne.channels.webhooks.delivery.alerts import ACTOR
from tonne.channels.webhooks.delivery.schedule import BACKOFF_S, parse_retry_after, pause_after
from tonne.platform.settings.settings import Settings

NOW = 1_794_737_600.0
PAUSE = """
SELECT extract(epoch FROM next_attempt_at - clock_timestamp())::float8 FROM webhooks WHERE id = $1
"""


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("120", 120.0),
        (" 7 ", 7.0),
        ("Sun, 15 Nov 2026 10:14:20 GMT", 60.0),
        ("Sunday, 15-Nov-26 10:14:20 GMT", 60.0),
        ("Sun, 15 Nov 2026 10:14:20", 60.0),
        ("Sun, 15 Nov 2026 10:00:00 GMT", 0.0),
        *((text, 0.0) for text in ("", "-5", "1.5", "soon", "٣", "9" * 40, "Sun, 99 Nov 2026 10:00:00 GMT")),
    ],
)
def test_a_number_or_a_date_is_understood(text: str, seconds: float) -> None:
    assert parse_retry_after(text, NOW) == seconds


def test_the_pause_is_as_long_as_asked_and_never_longer_than_the_longest_back_off() -> None:
    assert pause_after(1, 1.0, 90).total_seconds() == 90
    assert pause_after(1, 1.0, 1e9).total_seconds() == BACKOFF_S[-1]
    assert pause_after(20, 1.0, 1).total_seconds() > 1000, "the back-off is longer"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    """The longest pause is 36 seconds."""
    return msgspec.structs.replace(settings, webhook_time_scale=0.01)


@pytest.mark.parametrize("status", [429, 503, 500])
async def test_a_receiver_that_is_busy_is_left_alone_as_long_as_it_asks(
    stage: Stage, api: ApiClient, receiver: Receiver, status: int
) -> None:
    hook = await stage.register(receiver.url)
    receiver.rule = lambda _: reply(status, Retry_After="3000" if status == 429 else "20")
    await stage.emit(stage.one)
    async with stage.working():
        await stage.until(lambda: stage.attempts(hook))
        await stage.until(lambda: stage.fetchval("SELECT lease_until IS NULL FROM webhooks WHERE id = $1", hook.id))
    pause = await stage.fetchval(PAUSE, hook.id)
    assert (30 < pause <= 36) if status == 429 else (10 < pause <= 20)
    receiver.rule = lambda _: OK
    await api.post(f"/v1/webhooks/{hook.id}/retry-now", {})
    await stage.deliver()
    assert len(receiver.deliveries) == 2


async def test_no_probe_follows_a_receiver_that_asks_to_wait(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    await stage.emit(stage.one, stage.two)
    await stage.execute("UPDATE webhooks SET head_refusals = 5, failures = 5, batch_limit = 1, probe_after = 0")
    receiver.rule = lambda _: reply(429, Retry_After="30")
    async with stage.working():
        await stage.until(lambda: stage.attempts(hook))
        await stage.until(lambda: stage.fetchval("SELECT lease_until IS NULL FROM webhooks WHERE id = $1", hook.id))
    assert len(receiver.deliveries) == 1
    assert 20 < await stage.fetchval(PAUSE, hook.id) <= 30


async def test_gone_is_a_failure_like_any_other(stage: Stage, api: ApiClient, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    receiver.next(reply(410))
    [event] = await stage.emit(stage.one)
    async with stage.working():
        await stage.until(lambda: stage.fetchval("SELECT acknowledged_count FROM webhooks WHERE id = $1", hook.id))
    shown = (await api.get(f"/v1/webhooks/{hook.id}")).json()
    assert (shown["enabled"], shown["disable_on_gone"]) == (True, False)
    assert [delivery.event_ids for delivery in receiver.deliveries] == [[event], [event]]


async def test_gone_disables_a_webhook_that_asks_for_it_mails_the_admins_and_loses_nothing(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
    await add_admins(stage, "ada@ours.test")
    hook = await stage.register(receiver.url)
    assert (await put(api, hook.id, {"disable_on_gone": True})).json()["disable_on_gone"]
    accepted = await stage.emit(stage.one)
    await stage.deliver()
    receiver.next(reply(410))
    waiting = await stage.emit(stage.one, stage.two, stage.one)
    async with stage.working():
        await stage.until(
            lambda: stage.fetchval("SELECT NOT enabled AND lease_until IS NULL FROM webhooks WHERE id = $1", hook.id)
        )
    shown = (await api.get(f"/v1/webhooks/{hook.id}")).json()
    assert (shown["enabled"], shown["disabled_reason"]) == (False, "gone")
    assert (shown["delivery"]["state"], shown["delivery"]["waiting_events"]) == ("disabled", 3)
    [mail] = await mails(stage)
    assert (mail["To"], mail["Subject"]) == ("ada@ours.test", f"Webhook {hook.id} was disabled")
    assert "410" in text_of(mail)
    [entry] = await stage.fetch("SELECT actor, details FROM audit_log WHERE action = 'webhook.disabled'")
    assert entry["actor"] == str(ACTOR)

    sent = len(receiver.deliveries)
    await stage.deliver()
    assert len(receiver.deliveries) == sent, "a disabled webhook gets nothing"
    assert (await put(api, hook.id, {"enabled": True})).json()["disabled_reason"] is None
    await stage.deliver()
    assert [event["event_id"] for event in receiver.events[1:]][-3:] == waiting
    assert receiver.deliveries[0].event_ids == accepted


async def test_gone_for_a_parked_account_disables_the_webhook_too(stage: Stage, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url, disable_on_gone=True)
    receiver.rule = lambda delivery: reply(422) if stage.one.account_id in delivery.account_ids else OK
    await stage.emit(stage.one, stage.two)
    async with stage.working():
        await stage.until(lambda: stage.parked(hook))
        receiver.rule = lambda _: reply(410)
        await stage.until(lambda: stage.fetchval("SELECT NOT enabled FROM webhooks WHERE id = $1", hook.id))
    assert (await stage.parked(hook))[0]["suspended"]


def test_the_clock_of_this_test_is_the_date_of_its_headers() -> None:
    assert time.gmtime(NOW)[:5] == (2026, 11, 15, 10, 13)
