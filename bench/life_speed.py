"""How many orders a second go from placed to complete, against the writing of what they leave."""

from statistics import median

from bench import life_rows
from bench.checks import require_durable, require_sound
from bench.life_pace import Pace
from bench.life_rows import Rewrite
from bench.life_scene import Scene
from bench.report import Goal, Result

GOAL = Goal(reach=0.30, aim=0.50)


async def life(scene: Scene, pace: Pace) -> list[Result]:
    """The same orders in every round: afterwards they are taken back to placed, and what they left is removed."""
    stage = scene.stage
    placed = await scene.place(pace.warm_up_orders + pace.orders)
    warm_up, keys = placed[pace.orders :], placed[: pace.orders]
    rates: list[float] = []
    limits: list[float] = []
    copies: list[float] = []
    async with scene.worker(), stage.connection() as connection:
        await scene.live(warm_up)
        await life_rows.remember(connection)
        await stage.settle()
        await require_durable(stage)
        for _ in range(pace.rounds):
            rates.append(len(keys) / await scene.live(keys))
            await require_sound(stage)
            for by_copy, written in ((False, limits), (True, copies)):
                work = Rewrite(stage.url, keys, by_copy)
                written.append(stage.load_process.submit(life_rows.rewrite, work).result())
                # Were they the same rows? Then all that holds of what the worker did holds here too.
                await scene.require_lived(keys)
                await require_sound(stage)
            await life_rows.take_back(connection)
        await life_rows.forget(connection)
    return [
        Result("life", median(rates), "orders/s", median(limits), GOAL),
        Result("life_against_copy", median(rates), "orders/s", median(copies), None),
    ]
