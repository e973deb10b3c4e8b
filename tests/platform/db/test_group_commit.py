"""Batches of items: who shares one, who is left out, and that everyone gets the own result once."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tonne.platform.db import group_commit
from tonne.platform.db.group_commit import (
    CROWDED,
    MAX_BATCH,
    MAX_WAITING,
    GroupCommit,
    NotWritten,
    QueueFull,
    QueueTimeout,
)


class Item(NamedTuple):
    lane: str
    number: int
    # What the batch says about it, and what the attempt alone does.
    in_batch: NotWritten | None = None
    is_refused: bool = False


class Refusal(Exception):
    """One item is refused."""


class Writer:
    """Writes what it is given. Every batch waits until `gate` is set."""

    def __init__(self, *, wait_s: float = 60.0) -> None:
        self.group: GroupCommit[Item, int] = GroupCommit(self._write_batch, self._write_alone, wait_s=wait_s)
        self.gate = asyncio.Event()
        self.gate.set()
        # Items with these numbers, written alone, or batches that begin with them, wait until their event is set.
        self.held: dict[int, asyncio.Event] = {}
        self.held_batches: dict[int, asyncio.Event] = {}
        self.error: Exception | None = None
        self.batches: list[list[int]] = []
        self.written: Counter[int] = Counter()

    async def _write_batch(self, batch: Sequence[Item]) -> list[int | NotWritten]:
        self.batches.append([item.number for item in batch])
        await self.held_batches.get(batch[0].number, self.gate).wait()
        if self.error is not None:
            raise self.error
        self.written.update(item.number for item in batch if item.in_batch is None)
        return [item.number if item.in_batch is None else item.in_batch for item in batch]

    async def _write_alone(self, item: Item) -> int:
        self.batches.append([item.number])
        await self.held.get(item.number, self.gate).wait()
        if item.is_refused:
            raise Refusal(item.number)
        self.written[item.number] += 1
        return item.number

    def start(self, *items: Item) -> list[asyncio.Task[int]]:
        return [asyncio.create_task(self.group.write(item.lane, item)) for item in items]


async def _until_started(writer: Writer, batches: int) -> None:
    async with asyncio.timeout(20):
        while len(writer.batches) < batches:  # noqa: ASYNC110 - as soon as it is so
            await asyncio.sleep(0)


async def test_items_that_arrive_while_one_is_written_share_the_next_batch() -> None:
    writer = Writer()
    writer.gate.clear()
    tasks = writer.start(Item("a", 0))
    await _until_started(writer, 1)
    tasks += writer.start(*(Item("ab"[number % 2], number) for number in range(1, 6)))
    await asyncio.sleep(0)
    assert writer.batches == [[0]]
    writer.gate.set()
    assert await asyncio.gather(*tasks) == list(range(6))
    assert [sorted(batch) for batch in writer.batches] == [[0], [1, 2, 3, 4, 5]]


async def test_items_that_are_ready_at_once_share_the_first_batch() -> None:
    writer = Writer()
    assert await asyncio.gather(*writer.start(*(Item("a", number) for number in range(5)))) == list(range(5))
    assert writer.batches == [[0, 1, 2, 3, 4]]


async def test_items_of_one_lane_are_written_in_order_in_full_batches() -> None:
    writer = Writer()
    await asyncio.gather(*writer.start(*(Item("flood", number) for number in range(3 * MAX_BATCH))))
    assert [len(batch) for batch in writer.batches] == [MAX_BATCH] * 3
    assert [number for batch in writer.batches for number in batch] == list(range(3 * MAX_BATCH))


async def test_a_crowded_lane_is_written_in_small_batches_of_its_own_which_the_others_do_not_wait_for() -> None:
    writer = Writer()
    writer.gate.clear()
    writer.held_batches = {1000: asyncio.Event()}
    flood = writer.start(*(Item("flood", number) for number in range(3 * CROWDED)))
    few = writer.start(*(Item(f"lane {number}", 1000 + number) for number in range(3)))
    await _until_started(writer, 2)
    assert sorted(writer.batches) == [list(range(CROWDED)), [1000, 1001, 1002]]
    # They come while the batch of the crowded lane is still being written.
    writer.held_batches[1000].set()
    await asyncio.gather(*few)
    late = writer.start(Item("lane 0", 2000), Item("lane 1", 2001))
    await _until_started(writer, 3)
    assert writer.batches[2] == [2000, 2001]
    writer.gate.set()
    await asyncio.gather(*flood, *late)
    assert [number for batch in writer.batches for number in batch if number < 1000] == list(range(3 * CROWDED))


async def test_a_lane_that_was_crowded_a_moment_ago_stays_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its lock is still held often."""
    writer = Writer()
    await asyncio.gather(*writer.start(Item("few", 1000), *(Item("flood", number) for number in range(2 * CROWDED))))
    writer.batches.clear()
    await asyncio.gather(*writer.start(Item("flood", 0), Item("few", 1001)))
    assert sorted(writer.batches) == [[0], [1001]]
    monkeypatch.setattr(group_commit, "SHARED_FOR_S", 0)
    writer = Writer()
    await asyncio.gather(*writer.start(Item("few", 1000), *(Item("flood", number) for number in range(2 * CROWDED))))
    writer.batches.clear()
    await asyncio.gather(*writer.start(Item("flood", 0), Item("few", 1001)))
    assert writer.batches == [[0, 1001]]


async def test_items_that_would_wait_too_long_are_refused_at_once() -> None:
    writer = Writer()
    writer.gate.clear()
    tasks = writer.start(Item("flood", 0))
    await _until_started(writer, 1)
    tasks += writer.start(*(Item("flood", number) for number in range(1, MAX_WAITING + 2)), Item("another", 9_000))
    results = asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0)
    writer.gate.set()
    refused = [isinstance(result, QueueFull) for result in await results]
    assert refused == [False] * (MAX_WAITING + 1) + [True, False]


async def test_more_lanes_than_fit_into_a_batch_all_get_their_turn() -> None:
    writer = Writer()
    items = [Item(f"lane {lane}", lane * 10 + turn) for turn in range(2) for lane in range(MAX_BATCH + 10)]
    await asyncio.gather(*writer.start(*items))
    first_turns = {number for number in (item.number for item in items) if number % 10 == 0}
    assert first_turns <= {number for batch in writer.batches[:2] for number in batch}


@pytest.mark.parametrize("is_refused", [False, True])
async def test_an_item_that_the_batch_leaves_out_is_written_alone(is_refused: bool) -> None:
    writer = Writer()
    bad = Item("a", 1, NotWritten.NEEDS_OWN_ATTEMPT, is_refused)
    results = await asyncio.gather(*writer.start(Item("a", 0), bad, Item("b", 2)), return_exceptions=True)
    assert (results[0], results[2]) == (0, 2)
    assert isinstance(results[1], Refusal) if is_refused else results[1] == 1
    assert writer.batches == [[0, 2, 1], [1]], "lanes take turns"


async def test_a_batch_that_fails_is_written_item_by_item() -> None:
    writer = Writer()
    writer.error = asyncpg.CheckViolationError("one of them")
    items = [Item("a", 0), Item("a", 1, is_refused=True), Item("b", 2)]
    results = await asyncio.gather(*writer.start(*items), return_exceptions=True)
    assert (results[0], results[2]) == (0, 2)
    assert isinstance(results[1], Refusal)
    assert writer.written == {0: 1, 2: 1}


async def test_nothing_is_written_again_after_the_connection_was_lost() -> None:
    """The commit may have succeeded. An item without an idempotency key would be written twice."""
    writer = Writer()
    writer.error = asyncpg.ConnectionDoesNotExistError("lost in the middle")
    results = await asyncio.gather(*writer.start(Item("a", 0), Item("b", 1)), return_exceptions=True)
    assert results == [writer.error, writer.error]
    assert (writer.batches, writer.written) == ([[0, 1]], {})
    writer.error = None
    assert await writer.group.write("a", Item("a", 2)) == 2


async def test_a_lane_whose_lock_is_held_does_not_delay_the_others_and_stays_in_order() -> None:
    writer = Writer()
    writer.held = {0: asyncio.Event()}
    stuck = writer.start(Item("a", 0, NotWritten.LOCKED), Item("b", 1))
    await _until_started(writer, 2)
    later = writer.start(Item("a", 2), Item("b", 3), Item("a", 4))
    assert list(await asyncio.gather(stuck[1], later[1])) == [1, 3]
    assert not any(task.done() for task in (stuck[0], later[0], later[2]))
    writer.held[0].set()
    assert list(await asyncio.gather(stuck[0], later[0], later[2])) == [0, 2, 4]
    assert writer.batches == [[0, 1], [0], [3], [2, 4]]


async def test_one_item_alone_that_waits_for_a_lock_does_not_delay_the_others() -> None:
    writer = Writer()
    writer.held = {0: asyncio.Event()}
    stuck = writer.start(Item("a", 0))
    await _until_started(writer, 1)
    later = writer.start(Item("a", 1), Item("b", 2), Item("c", 3))
    assert await asyncio.wait_for(asyncio.gather(*later[1:]), 20) == [2, 3]
    assert not later[0].done()
    writer.held[0].set()
    assert await asyncio.gather(*stuck, later[0]) == [0, 1]


async def test_an_item_that_is_cancelled_while_it_waits_is_not_written() -> None:
    writer = Writer()
    writer.gate.clear()
    tasks = writer.start(Item("a", 0))
    await _until_started(writer, 1)
    tasks += writer.start(Item("a", 1), Item("a", 2), Item("b", 3))
    await asyncio.sleep(0)
    tasks[1].cancel()
    writer.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [results[0], *results[2:]] == [0, 2, 3]
    assert isinstance(results[1], asyncio.CancelledError)
    assert writer.written == {0: 1, 2: 1, 3: 1}


async def test_an_item_that_is_cancelled_in_a_batch_does_not_stop_the_batch() -> None:
    writer = Writer()
    writer.gate.clear()
    tasks = writer.start(*(Item("a", number) for number in range(4)))
    await _until_started(writer, 1)
    tasks[2].cancel()
    await asyncio.sleep(0)
    writer.gate.set()
    results = await asyncio.gather(*tasks, return_exceptions=True)
    assert [results[0], results[1], results[3]] == [0, 1, 3]
    assert writer.written == {0: 1, 1: 1, 2: 1, 3: 1}


async def test_waiting_ends_in_time() -> None:
    writer = Writer(wait_s=0.01)
    writer.gate.clear()
    first = writer.start(Item("a", 0), Item("a", 1))
    await _until_started(writer, 1)
    with pytest.raises(QueueTimeout):
        await writer.group.write("a", Item("a", 2))
    writer.gate.set()
    assert await asyncio.gather(*first) == [0, 1], "what is being written has no other time limit"
    await writer.group.drain()
    assert writer.written == {0: 1, 1: 1}


async def test_draining_waits_for_everything_that_was_accepted() -> None:
    writer = Writer()
    writer.held = {0: asyncio.Event()}
    tasks = writer.start(Item("a", 0, NotWritten.LOCKED), Item("b", 1))
    await _until_started(writer, 2)
    tasks += writer.start(Item("a", 2))
    draining = asyncio.create_task(writer.group.drain())
    await asyncio.sleep(0.01)
    assert not draining.done()
    writer.held[0].set()
    await draining
    assert await asyncio.gather(*tasks) == [0, 1, 2]


_ITEMS = st.lists(
    st.tuples(
        st.sampled_from("abcd"), st.sampled_from([None, None, None, *NotWritten]), st.booleans(), st.integers(0, 3)
    ),
    min_size=1,
    max_size=40,
)


@given(_ITEMS)
def test_everyone_gets_the_own_result_and_nothing_is_written_twice(
    drawn: list[tuple[str, NotWritten | None, bool, int]],
) -> None:
    async def run() -> None:
        writer = Writer()
        items = [Item(lane, number, why, refused) for number, (lane, why, refused, _) in enumerate(drawn)]

        async def write(item: Item, pauses: int) -> int:
            for _ in range(pauses):
                await asyncio.sleep(0)
            return await writer.group.write(item.lane, item)

        results = await asyncio.gather(
            *(write(item, pauses) for item, (_, _, _, pauses) in zip(items, drawn, strict=True)),
            return_exceptions=True,
        )
        await writer.group.drain()
        for item, result in zip(items, results, strict=True):
            if isinstance(result, Refusal):
                assert item.is_refused
                assert result.args == (item.number,)
            else:
                assert result == item.number
        assert writer.written == {result: 1 for result in results if isinstance(result, int)}

    asyncio.run(run())
