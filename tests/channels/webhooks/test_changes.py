"""Changes of a registration between deliveries and while a request is in flight."""

import asyncio
from datetime import timedelta

import httpx
import pytest

from tests.channels.webhooks.stage import Hook, Stage, verify
from tests.support.api_client import ApiClient, codes
from tests.support.receivers import OK, Receiver, after, receiving, reply
from tests.support.tls import Authority
from tonne.platform.values.context import to_wire, utc_now


async def put(api: ApiClient, hook: Hook, **changes: object) -> None:
    answer = await api.http.put(f"/v1/webhooks/{hook.id}", json=changes, headers=api._headers({}))
    assert answer.status_code == 200, answer.text


async def act(api: ApiClient, hook: Hook, action: str, body: object = None) -> httpx.Response:
    answer = await api.post(f"/v1/webhooks/{hook.id}/{action}", body or {})
    assert answer.status_code == 200, answer.text
    return answer


async def test_disabling_keeps_events_waiting_and_enabling_resumes(
    stage: Stage, api: ApiClient, receiver: Receiver, authority: Authority
) -> None:
    hook = await stage.register(receiver.url)
    await put(api, hook, enabled=False)
    async with receiving(authority.context()) as other:
        await stage.register(other.url)
        ids = await stage.emit(stage.one, stage.two)
        # The second receiver got all events, so the worker has run and skipped the disabled webhook.
        await stage.deliver()
        assert [event["event_id"] for event in other.events] == ids
        assert receiver.deliveries == []
        shown = (await api.get(f"/v1/webhooks/{hook.id}")).json()["delivery"]
        assert (shown["state"], shown["waiting_events"], shown["next_attempt_at"]) == ("disabled", 2, None)
        await put(api, hook, enabled=True)
        await stage.deliver()
    assert [event["event_id"] for event in receiver.events] == ids


@pytest.mark.parametrize("by", ["sequence", "event_id"])
async def test_rewinding_delivers_again_from_there_on(
    stage: Stage, api: ApiClient, receiver: Receiver, by: str
) -> None:
    before = await stage.emit(stage.one)
    hook = await stage.register(receiver.url)
    ids = before + await stage.emit(stage.one, stage.two, stage.one)
    await stage.deliver()
    [row] = await stage.fetch("SELECT sequence FROM events WHERE id = $1", ids[2])
    target = {"sequence": to_wire(row["sequence"])} if by == "sequence" else {"event_id": ids[2]}
    shown = (await act(api, hook, "rewind", target)).json()["delivery"]
    assert (shown["state"], shown["waiting_events"]) == ("delivering", 2)
    await stage.deliver()
    assert [delivery.event_ids for delivery in receiver.deliveries] == [ids[1:], ids[2:]]
    # A rewind may also reach back before the registration.
    await act(api, hook, "rewind", {"sequence": "2000-01-01T00:00:00.000Z"})
    await stage.deliver()
    assert receiver.deliveries[-1].event_ids == ids
    assert receiver.deliveries[-1].body.startswith(receiver.deliveries[0].body[:11])


async def test_rewinding_never_goes_forward(stage: Stage, api: ApiClient, receiver: Receiver) -> None:
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.one, stage.one)
    await act(api, hook, "rewind", {"event_id": ids[2]})
    await act(api, hook, "rewind", {"sequence": "2999-01-01T00:00:00.000Z"})
    await stage.deliver()
    assert [event["event_id"] for event in receiver.events] == ids


async def test_a_rewind_during_a_request_is_not_undone_by_its_acknowledgement(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    first = await stage.emit(stage.one)
    await stage.deliver()
    released = asyncio.Event()
    receiver.next(after(released))
    second = await stage.emit(stage.one)
    async with stage.working():
        await receiver.count(2)
        await act(api, hook, "rewind", {"event_id": first[0]})
        released.set()
        await stage.idle()
    assert [event["event_id"] for event in receiver.events] == [*first, *second, *first, *second]


async def test_a_refusal_of_a_request_sent_before_a_rewind_does_not_count_against_the_new_first_event(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    first = await stage.emit(stage.one)
    await stage.deliver()
    released = asyncio.Event()
    receiver.next(after(released, reply(500)))
    receiver.rule = lambda _: reply(500)
    await stage.emit(stage.one)
    refusals = []

    async def failed_twice() -> bool:
        row = await stage.row(hook)
        refusals.append(row["head_refusals"])
        return bool(row["failures"] == 2)

    async with stage.working(stage.change(webhook_time_scale=1)):
        await receiver.count(2)
        await act(api, hook, "rewind", {"event_id": first[0]})
        released.set()
        await stage.until(failed_twice)
    assert receiver.deliveries[2].event_ids == first
    assert refusals[-1] == 1


async def test_a_new_url_during_a_request_gets_its_events_again(
    stage: Stage, api: ApiClient, receiver: Receiver, authority: Authority
) -> None:
    released = asyncio.Event()
    receiver.next(after(released))
    async with receiving(authority.context()) as fresh:
        hook = await stage.register(receiver.url)
        ids = await stage.emit(stage.one, stage.two)
        async with stage.working():
            await receiver.count(1)
            await put(api, hook, url=fresh.url)
            ids += await stage.emit(stage.one)
            released.set()
            await stage.idle()
        assert [delivery.event_ids for delivery in receiver.deliveries] == [ids[:2]]
        assert [event["event_id"] for event in fresh.events] == ids


async def test_a_new_url_gets_its_first_request_without_waiting_for_the_back_off(
    stage: Stage, api: ApiClient, receiver: Receiver, authority: Authority
) -> None:
    receiver.rule = lambda _: reply(500)
    hook = await stage.register(receiver.url)
    ids = await stage.emit()
    async with receiving(authority.context()) as fresh, stage.working(stage.change(webhook_time_scale=1)):
        await stage.until(lambda: _has_failed(stage, hook))
        await stage.fetch("UPDATE webhooks SET next_attempt_at = now() + interval '1 hour'")
        seen = len(receiver.deliveries)
        await put(api, hook, url=fresh.url)
        await stage.idle()
        assert [event["event_id"] for event in fresh.events] == ids
        assert len(receiver.deliveries) == seen


async def _has_failed(stage: Stage, hook: Hook) -> bool:
    row = await stage.row(hook)
    return row["failures"] > 0 and row["lease_until"] is None


async def test_a_filter_changed_during_a_request_applies_from_the_cursor_on(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
    released = asyncio.Event()
    receiver.next(after(released))
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two)
    async with stage.working():
        await receiver.count(1)
        await put(api, hook, account_ids=[stage.two.account_id])
        later = await stage.emit(stage.one, stage.two)
        released.set()
        await stage.idle()
    # The cursor was before all of them when the filter changed: only events of the second account are sent again.
    assert [delivery.event_ids for delivery in receiver.deliveries] == [ids, [ids[1], later[1]]]


async def test_the_recorded_scopes_stay_correct_when_a_filter_changes_around_a_rewind(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
    """A scope that differs from the one applied at a position makes `tonne doctor` report a lost event."""
    hook = await stage.register(receiver.url, stage.one)
    await stage.emit(stage.one, stage.two)
    await stage.deliver()
    await put(api, hook, account_ids=[])
    ids = await stage.emit(stage.one, stage.two)
    await act(api, hook, "rewind", {"sequence": "2000-01-01T00:00:00.000Z"})
    await put(api, hook, account_ids=[stage.one.account_id])
    await stage.deliver()
    assert ids[1] not in [event["event_id"] for event in receiver.events]
    assert ids[0] in [event["event_id"] for event in receiver.events]


@pytest.mark.parametrize("overlap_s", [0, 60])
async def test_a_rotation_during_a_request_leaves_it_acknowledged_and_signs_the_next_with_the_new_secret(
    stage: Stage, api: ApiClient, receiver: Receiver, overlap_s: int
) -> None:
    released = asyncio.Event()
    receiver.next(after(released))
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one)
    async with stage.working():
        await receiver.count(1)
        fresh = (await act(api, hook, "rotate-secret", {"overlap_s": overlap_s})).json()["secret"]
        ids += await stage.emit(stage.one)
        released.set()
        await stage.idle()
    assert [delivery.event_ids for delivery in receiver.deliveries] == [ids[:1], ids[1:]]
    organisation_id = stage.one.organisation_id
    first, second = receiver.deliveries
    assert (verify(first, hook.secret, organisation_id), verify(first, fresh, organisation_id)) == (True, False)
    old_too = overlap_s > 0
    assert (verify(second, fresh, organisation_id), verify(second, hook.secret, organisation_id)) == (True, old_too)


async def test_two_secrets_sign_during_the_overlap_and_one_after_it(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    before = utc_now()
    fresh = (await act(api, hook, "rotate-secret", {"overlap_s": 3600})).json()["secret"]
    rotated_at = (await stage.row(hook))["old_secret_until"] - timedelta(seconds=3600)
    assert before <= rotated_at <= utc_now() + timedelta(milliseconds=1)
    organisation_id = stage.one.organisation_id
    await stage.emit()
    async with stage.working():
        await receiver.count(1)
        both = receiver.deliveries[0]
        assert both.headers["service-hmac"].count("v1=") == 2
        assert verify(both, hook.secret, organisation_id)
        assert verify(both, fresh, organisation_id)
        await stage.idle()
        await stage.fetch("UPDATE webhooks SET old_secret_until = clock_timestamp() WHERE id = $1", hook.id)
        await stage.emit()
        await stage.idle()
    one = receiver.deliveries[-1]
    assert one.headers["service-hmac"].count("v1=") == 1
    assert verify(one, fresh, organisation_id)
    assert not verify(one, hook.secret, organisation_id)


async def _signing(stage: Stage, receiver: Receiver, secrets: list[str]) -> list[bool]:
    """Which of the secrets sign the next request."""
    await stage.emit()
    await stage.deliver()
    delivery = receiver.deliveries[-1]
    good = [verify(delivery, secret, stage.one.organisation_id) for secret in secrets]
    assert delivery.headers["service-hmac"].count("v1=") == sum(good)
    return good


async def test_three_secrets_sign_and_a_rotation_never_ends_a_promised_overlap_early(
    stage: Stage, api: ApiClient, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    secrets = [hook.secret]
    secrets.append((await act(api, hook, "rotate-secret", {"overlap_s": 7200})).json()["secret"])
    secrets.append((await act(api, hook, "rotate-secret", {"overlap_s": 3600})).json()["secret"])
    assert await _signing(stage, receiver, secrets) == [True, True, True]
    ends = (await stage.row(hook))["old_secret_until"]
    for overlap in ({}, {"overlap_s": 1}):
        refused = await api.post(f"/v1/webhooks/{hook.id}/rotate-secret", overlap)
        assert (refused.status_code, codes(refused)) == (409, ["webhook_overlap_promised"])
        assert f"until {to_wire(ends)}" in refused.json()["error"]["message"]
    assert await _signing(stage, receiver, secrets) == [True, True, True]

    # The shorter overlap of the newer one has ended: the longer one of the first is kept.
    await stage.fetch("UPDATE webhooks SET old_secret_until = clock_timestamp() WHERE id = $1", hook.id)
    secrets.append((await act(api, hook, "rotate-secret", {"overlap_s": 60})).json()["secret"])
    assert await _signing(stage, receiver, secrets) == [True, False, True, True]
    secrets.append((await act(api, hook, "rotate-secret", {"overlap_s": 0})).json()["secret"])
    assert await _signing(stage, receiver, secrets) == [False, False, False, False, True]


@pytest.mark.parametrize("status", [200, 500])
async def test_disabling_during_a_request_sends_nothing_more_and_loses_nothing(
    stage: Stage, api: ApiClient, receiver: Receiver, authority: Authority, status: int
) -> None:
    released = asyncio.Event()
    receiver.next(after(released, reply(status)))
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two)
    async with receiving(authority.context()) as other:
        async with stage.working():
            await receiver.count(1)
            await put(api, hook, enabled=False)
            released.set()
            await stage.register(other.url)
            ids += await stage.emit(stage.one)
            await other.count(1)
        assert len(receiver.deliveries) == 1
        await put(api, hook, enabled=True)
        await stage.deliver()
    assert {event["event_id"] for event in receiver.events} == set(ids)
    # The request in flight during the change did not move the cursor.
    assert [event["event_id"] for delivery in receiver.deliveries[1:] for event in delivery.events] == ids


@pytest.mark.parametrize("status", [200, 500])
async def test_deleting_during_a_request_sends_nothing_more(
    stage: Stage, api: ApiClient, receiver: Receiver, authority: Authority, status: int
) -> None:
    released = asyncio.Event()
    receiver.next(after(released, reply(status)))
    hook = await stage.register(receiver.url)
    await stage.emit(stage.one)
    async with receiving(authority.context()) as other, stage.working():
        await receiver.count(1)
        deleted = await api.http.delete(f"/v1/webhooks/{hook.id}", headers=api._headers({}))
        assert deleted.status_code == 204
        released.set()
        await stage.register(other.url)
        await stage.emit(stage.one)
        await other.count(1)
        await stage.idle()
    assert len(receiver.deliveries) == 1
    [attempt] = await stage.attempts(hook)
    assert attempt["status"] == status


async def test_retry_now_does_not_wait_for_the_backoff(stage: Stage, api: ApiClient, receiver: Receiver) -> None:
    receiver.rule = lambda _: reply(500)
    hook = await stage.register(receiver.url)
    await stage.emit()
    async with stage.working(stage.change(webhook_time_scale=1)):
        await stage.until(lambda: _has_failed(stage, hook))
        await stage.fetch("UPDATE webhooks SET next_attempt_at = now() + interval '1 hour'")
        receiver.rule = lambda _: OK
        await act(api, hook, "retry-now")
        await stage.idle()
    assert receiver.deliveries[-1].body == receiver.deliveries[0].body
