import asyncio
from collections.abc import Awaitable, Callable

from chaos.receivers import Behaviour, Call
from chaos.scene import Trouble

WITHIN_S = 15.0


class Trap:
    """Does something to the sender of the first request that arrives; `then` answers those after it, if anybody."""

    def __init__(self, spring: Callable[[Call], Awaitable[None]], then: Behaviour | None = None) -> None:
        self._spring = spring
        self._then = then
        self._armed = True
        self._sprung = asyncio.Event()

    async def behave(self, call: Call) -> None:
        if self._armed:
            self._armed = False
            await self._spring(call)
            self._sprung.set()
        elif self._then is not None:
            await self._then(call)

    async def sprung(self) -> None:
        try:
            async with asyncio.timeout(WITHIN_S):
                await self._sprung.wait()
        except TimeoutError:
            raise Trouble(f"no request came to its point within {WITHIN_S:g} s") from None
