"""Keeps one organisation from using up all database connections of a process."""

import asyncio
from collections import deque

from tonne.http.errors import ServiceUnavailable


class FairShare:
    """At most `limit` requests of one organisation run at a time; the others wait, in order, for at most `wait_s`.

    Requests of one organisation may all wait for the same locked row. Requests of the others then still find a
    connection.
    """

    def __init__(self, limit: int, wait_s: float) -> None:
        self._limit = limit
        self._wait_s = wait_s
        self._running: dict[str, int] = {}
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    async def enter(self, organisation_id: str) -> None:
        running = self._running.get(organisation_id, 0)
        if running < self._limit:
            self._running[organisation_id] = running + 1
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(organisation_id, deque()).append(turn)
        try:
            async with asyncio.timeout(self._wait_s):
                await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                # The turn came at the same moment: pass it on.
                self.leave(organisation_id)
            if isinstance(error, TimeoutError):
                raise ServiceUnavailable from error
            raise

    def leave(self, organisation_id: str) -> None:
        waiting = self._waiting.get(organisation_id, ())
        while waiting:
            turn = waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._waiting.pop(organisation_id, None)
        running = self._running.pop(organisation_id) - 1
        if running:
            self._running[organisation_id] = running
