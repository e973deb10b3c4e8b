"""The notifier sends few notifications, promptly, and loses none."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tonne.platform.db.database import Database
from tonne.platform.events.notification import (
    CHANNEL,
    EVERYTHING,
    MAX_STREAMS,
    Notification,
    Notifier,
    Stream,
    WorkKind,
)
from tonne.platform.values.context import Mode, Scope

END = "the_end"


@pytest.fixture
async def heard(db: Database) -> AsyncIterator[asyncio.Queue[str]]:
    """The channel of every notification that arrives."""
    words: asyncio.Queue[str] = asyncio.Queue()
    async with db.connection() as connection:
        for channel in (CHANNEL, END):
            await connection.add_listener(channel, lambda _connection, _pid, name, _text: words.put_nowait(name))
        yield words
        await connection.reset()


async def test_a_notification_right_after_another_is_not_lost(db: Database, heard: asyncio.Queue[str]) -> None:
    """A commit after the first notification needs a second one."""
    notifier = Notifier(db)
    for _ in range(3):
        notifier.notify()
        assert await asyncio.wait_for(heard.get(), 10) == CHANNEL


async def test_a_hundred_calls_at_once_send_one_notification(db: Database, heard: asyncio.Queue[str]) -> None:
    notifier = Notifier(db)
    for _ in range(100):
        notifier.notify()
    assert await asyncio.wait_for(heard.get(), 10) == CHANNEL
    notifier.notify()
    assert await asyncio.wait_for(heard.get(), 10) == CHANNEL
    async with db.connection() as connection:
        await connection.execute(f"NOTIFY {END}")
    assert await asyncio.wait_for(heard.get(), 10) == END, "there is no third notification"


@pytest.fixture
async def notified(db: Database) -> AsyncIterator[asyncio.Queue[Notification]]:
    """What every notification says."""
    received: asyncio.Queue[Notification] = asyncio.Queue()
    async with db.connection() as connection:
        await connection.add_listener(
            CHANNEL, lambda _connection, _pid, _name, text: received.put_nowait(Notification.parse(str(text)))
        )
        yield received
        await connection.reset()


def _scope(number: int) -> Scope:
    return Scope(f"org_{number:032d}", f"acc_{number}", Mode.TEST)


async def test_a_notification_names_the_kinds_and_the_stream(
    db: Database, notified: asyncio.Queue[Notification]
) -> None:
    Notifier(db).notify(WorkKind.EVENTS, WorkKind.TEST_CHARGES, scope=_scope(1))
    assert await asyncio.wait_for(notified.get(), 10) == Notification(
        frozenset({WorkKind.EVENTS, WorkKind.TEST_CHARGES}), frozenset({Stream(_scope(1).organisation_id, "test")})
    )


async def test_calls_in_a_burst_are_one_notification_with_all_that_became_due(
    db: Database, notified: asyncio.Queue[Notification]
) -> None:
    notifier = Notifier(db)
    notifier.notify(WorkKind.EVENTS, scope=_scope(1))
    notifier.notify(WorkKind.EVENTS, scope=_scope(2))
    notifier.notify(WorkKind.MAILS)
    notification = await asyncio.wait_for(notified.get(), 10)
    assert notification.kinds == frozenset({WorkKind.EVENTS, WorkKind.MAILS})
    assert {stream.organisation_id for stream in notification.streams} == {f"org_{n:032d}" for n in (1, 2)}


@pytest.mark.parametrize("streams", [MAX_STREAMS, MAX_STREAMS + 1, 1000])
async def test_a_burst_over_many_streams_fits_one_notification(
    db: Database, notified: asyncio.Queue[Notification], streams: int
) -> None:
    """PostgreSQL refuses a payload of 8,000 bytes. Without names, the job looks at all streams."""
    notifier = Notifier(db)
    for number in range(streams):
        notifier.notify(WorkKind.EVENTS, scope=_scope(number))
    notification = await asyncio.wait_for(notified.get(), 10)
    assert notification.kinds == frozenset({WorkKind.EVENTS})
    assert len(notification.streams) == (streams if streams <= MAX_STREAMS else 0)


async def test_events_of_an_unknown_stream_are_events_of_any_stream(
    db: Database, notified: asyncio.Queue[Notification]
) -> None:
    notifier = Notifier(db)
    notifier.notify(WorkKind.EVENTS, scope=_scope(1))
    notifier.notify(WorkKind.EVENTS)
    assert (await asyncio.wait_for(notified.get(), 10)).streams == frozenset()


async def test_without_kinds_everything_may_be_due(db: Database, notified: asyncio.Queue[Notification]) -> None:
    notifier = Notifier(db)
    notifier.notify(WorkKind.MAILS)
    notifier.notify()
    notifier.notify(WorkKind.EVENTS, scope=_scope(1))
    assert await asyncio.wait_for(notified.get(), 10) == EVERYTHING


async def test_the_notification_of_an_older_release_means_everything(
    db: Database, notified: asyncio.Queue[Notification]
) -> None:
    async with db.connection() as connection:
        await connection.execute(f"NOTIFY {CHANNEL}")
    assert await asyncio.wait_for(notified.get(), 10) == EVERYTHING


@pytest.mark.parametrize(
    ("payload", "notification"),
    [
        ('{"kinds":["teleports"]}', Notification(frozenset())),
        ('{"kinds":["teleports","mails"],"from":"a newer release"}', Notification(frozenset({WorkKind.MAILS}))),
        ("something else", EVERYTHING),
        ('{"kinds":7}', EVERYTHING),
        ('{"kinds":["events"],"streams":[["org_1","test","eu"]]}', EVERYTHING),
    ],
)
def test_notifications_of_a_newer_release(payload: str, notification: Notification) -> None:
    """A kind that this release does not know has no job here. A format that it does not know means everything."""
    assert Notification.parse(payload) == notification
