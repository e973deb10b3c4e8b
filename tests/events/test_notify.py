"""Notifier: prompt, few, and none that is needed is left out."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from tonne.db.pool import Database
from tonne.events.notify import CHANNEL, Notifier

END = "the_end"


@pytest.fixture
async def heard(db: Database) -> AsyncIterator[asyncio.Queue[str]]:
    """The channel of every word, as it comes."""
    words: asyncio.Queue[str] = asyncio.Queue()
    async with db.connection() as connection:
        for channel in (CHANNEL, END):
            await connection.add_listener(channel, lambda _connection, _pid, name, _text: words.put_nowait(name))
        yield words
        await connection.reset()


async def test_a_hint_right_after_another_is_not_lost(db: Database, heard: asyncio.Queue[str]) -> None:
    """What was committed after the first word went out needs a second one."""
    notifier = Notifier(db)
    for _ in range(3):
        notifier.notify()
        assert await asyncio.wait_for(heard.get(), 10) == CHANNEL


async def test_a_hundred_hints_at_once_are_one_word(db: Database, heard: asyncio.Queue[str]) -> None:
    notifier = Notifier(db)
    for _ in range(100):
        notifier.notify()
    assert await asyncio.wait_for(heard.get(), 10) == CHANNEL
    notifier.notify()
    assert await asyncio.wait_for(heard.get(), 10) == CHANNEL
    async with db.connection() as connection:
        await connection.execute(f"NOTIFY {END}")
    assert await asyncio.wait_for(heard.get(), 10) == END, "no third word came before it"
