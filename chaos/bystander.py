"""An organisation that has nothing to do with the trouble: how long its events take tells whether it is slowed."""

import asyncio
import statistics
import time

import msgspec

from chaos.receivers import Call
from chaos.scene import Organisation, Scene, Trouble
from tonne.base.ids import new_id

# So much slower than before the trouble may an event of a bystander be, in the ninth-slowest case of ten. Far below
# what waiting for somebody else's receiver would cost, and above what a busy machine does by itself.
MAX_DELAY_S = 0.75


class _Order(msgspec.Struct):
    id: str


class _Data(msgspec.Struct):
    order: _Order


class _Event(msgspec.Struct):
    event_type: str
    data: _Data


class _Body(msgspec.Struct):
    events: list[_Event]


_read_body = msgspec.json.Decoder(_Body).decode


class Bystander:
    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._organisation: Organisation | None = None
        self._arrived_s: dict[str, float] = {}
        self._before: list[float] = []

    async def open(self) -> "Bystander":
        self._organisation = await self._scene.open_organisation(1)
        receiver = await self._scene.receiver("bystander", self._note)
        await self._scene.register(self._organisation, receiver)
        return self

    async def _note(self, call: Call) -> None:
        for event in _read_body(call.body).events:
            if event.event_type == "order.placed":
                self._arrived_s.setdefault(event.data.order.id, time.monotonic())
        call.answer(200)

    async def before(self, orders: int = 15) -> None:
        """As it is without any trouble. Call it with a worker that runs already."""
        await self.pace(3)  # the first ones open connections and fill caches
        self._before = await self.pace(orders)

    async def compare(self, orders: int = 15) -> None:
        """As it is now, in the midst of the trouble: not notably slower."""
        self.judge(await self.pace(orders))

    async def pace(self, orders: int, pause_s: float = 0.1) -> list[float]:
        """Seconds from the answer to an order to the arrival of its event."""
        if self._organisation is None:
            raise Trouble("the bystander was not opened")
        placed_s = {}
        for _ in range(orders):
            key = new_id("key")
            order_id = await self._scene.place_one(self._organisation, self._organisation.scopes[0], key)
            placed_s[order_id] = time.monotonic()
            await asyncio.sleep(pause_s)

        async def all_arrived() -> bool:
            return placed_s.keys() <= self._arrived_s.keys()

        await self._scene.until(all_arrived, "a bystander's events arrive", 30)
        return [max(0.0, self._arrived_s[order_id] - moment) for order_id, moment in placed_s.items()]

    def judge(self, during: list[float]) -> None:
        before_s, during_s = _slow(self._before), _slow(during)
        self._scene.note(f"bystander p90 {before_s * 1000:.0f} then {during_s * 1000:.0f} ms")
        self._scene.require(
            during_s <= before_s + MAX_DELAY_S,
            f"another organisation was slowed: nine tenths of its events took {before_s * 1000:.0f} ms at most before, "
            f"{during_s * 1000:.0f} ms during the trouble",
        )


def _slow(latencies: list[float]) -> float:
    return statistics.quantiles(latencies, n=10, method="inclusive")[-1]
