"""The notifier sends few notifications, promptly, and loses none."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tonne.db.pool import Database
from tonne.events.notify import CHANNEL, Notifier

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
