"""Many events at once."""

from collections.abc import Sequence

from chaos.scene import Scene
from tonne.base.clock import utc_now
from tonne.base.ids import new_id
from tonne.base.scope import Scope
from tonne.events.log import NewEvent, append

CHUNK = 2_000


async def append_events(scene: Scene, scopes: Sequence[Scope], count: int) -> None:
    """With the service's own code, in the place of orders that would take minutes to come in over HTTP.

    Each order has two events, and a chunk of them belongs to one of the accounts, by chance.
    """
    async with scene.connection() as connection:
        for start in range(0, count, CHUNK):
            events = []
            for _ in range(min(CHUNK, count - start) // 2):
                order_id = new_id("ord")
                for status in ("received", "placed"):
                    document = f'{{"id":"{order_id}","status":"{status}"}}'
                    events.append(NewEvent(f"order.{status}", "order", order_id, document))
            async with connection.transaction():
                await append(connection, scene.rng.choice(scopes), events, utc_now())
