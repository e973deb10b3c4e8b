"""Hints: prompt, few, and none that is needed is left out."""

import asyncio

from tonne.db.pool import Database
from tonne.events.hint import CHANNEL, Hints


async def test_a_hint_right_after_another_is_not_lost(db: Database) -> None:
    """What was committed after the first word went out needs a second one."""
    heard: asyncio.Queue[None] = asyncio.Queue()
    hints = Hints(db)
    async with db.connection() as connection:
        await connection.add_listener(CHANNEL, lambda *_: heard.put_nowait(None))
        for _ in range(3):
            hints.give()
            await asyncio.wait_for(heard.get(), 10)
        await connection.remove_listener(CHANNEL, lambda *_: None)


async def test_many_hints_at_once_are_one_word_and_one_for_the_late_ones(db: Database) -> None:
    heard: list[None] = []
    last = asyncio.Event()
    hints = Hints(db)
    async with db.connection() as connection:
        await connection.add_listener(CHANNEL, lambda *_: heard.append(None))
        await connection.add_listener("the_end", lambda *_: last.set())
        for _ in range(100):
            hints.give()
        await asyncio.sleep(0.2)
        await connection.execute("NOTIFY the_end")
        await asyncio.wait_for(last.wait(), 10)
        assert 1 <= len(heard) <= 2
        await connection.reset()
