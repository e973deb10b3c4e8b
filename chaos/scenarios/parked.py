"""A receiver that refuses one account's events and takes all others: only that account waits."""

import asyncio
import time
from dataclasses import dataclass

from chaos.receivers import Call, Receiver
from chaos.scenarios.scenario import Scenario
from chaos.scene import QUICK, Hook, Organisation, Scene
from chaos.volume import append_events

PARKED_WITHIN_S = 25.0
# In this time a receiver that refuses everything hears from us a handful of times, as the pauses grow. A worker that
# forgot the pauses would come with every look for work: forty times.
WATCHED_S = 2.0
MAX_REQUESTS_WATCHED = 15
# More than the service looks through at once.
MANY = 1_600
_EAGER = {**QUICK, "TONNE_WORKER_POLL_S": "0.05"}


@dataclass(slots=True)
class Picky:
    """Refuses what it does not like: events of one account, everything, or nothing."""

    account_id: str
    refuses: str = "account"
    dawdle_s: float = 0.0

    async def behave(self, call: Call) -> None:
        if self.refuses == "everything" or (self.refuses == "account" and self.account_id.encode() in call.body):
            call.answer(500, b"not that one")
            return
        await asyncio.sleep(self.dawdle_s)
        if not call.gone.is_set():
            call.answer(200)


@dataclass(frozen=True, slots=True)
class Case:
    organisation: Organisation
    receiver: Receiver
    hook: Hook
    picky: Picky

    @property
    def accounts(self) -> list[str]:
        """The first one is the refused one."""
        return [scope.account_id for scope in self.organisation.scopes]


async def _park(scene: Scene, workers: int = 1) -> Case:
    """The first account is refused until it is parked, while the others go on."""
    fired = scene.faults.announce("account parked")
    organisation = await scene.open_organisation()
    picky = Picky(organisation.scopes[0].account_id)
    receiver = await scene.receiver("picky", picky.behave)
    hook = await scene.register(organisation, receiver)
    for _ in range(workers):
        scene.start_worker()
    await _order_for_all(scene, organisation, 3)

    async def is_parked() -> bool:
        return bool(await scene.fetch("SELECT account_id FROM webhook_parked WHERE webhook_id = $1", hook.id))

    await scene.until(is_parked, "the account is parked", PARKED_WITHIN_S)
    fired()
    return Case(organisation, receiver, hook, picky)


async def _order_for_all(scene: Scene, organisation: Organisation, times: int) -> None:
    for _ in range(times):
        for scope in organisation.scopes:
            await scene.place_one(organisation, scope, f"order-{len(scene.placed)}")


async def _main_lane_is_empty(scene: Scene, hook: Hook) -> None:
    async def holds() -> bool:
        rows = await scene.fetch(
            "SELECT cursor_position = last_position FROM webhooks JOIN event_streams USING (organisation_id, mode) "
            "WHERE id = $1",
            hook.id,
        )
        return bool(rows[0][0])

    await scene.until(holds, "the other accounts' events are delivered", 20)


async def parked_and_freed(scene: Scene) -> None:
    """Meanwhile the filter leaves the account out, and lets it in again."""
    changed = scene.faults.announce("filter changed while parked", 2)
    case = await _park(scene)
    await _order_for_all(scene, case.organisation, 3)
    await _main_lane_is_empty(scene, case.hook)
    await scene.change(case.hook, account_ids=case.accounts[1:])
    changed()
    await _order_for_all(scene, case.organisation, 2)
    await _main_lane_is_empty(scene, case.hook)
    await scene.change(case.hook, account_ids=[])
    changed()
    case.picky.refuses = "nothing"
    await _order_for_all(scene, case.organisation, 2)
    await scene.until_delivered(20)


async def parked_and_taken(scene: Scene) -> None:
    """The account's events are taken at last, slowly, with another worker waiting for the lease to run out."""
    fired = scene.faults.announce("parked events taken slowly")
    case = await _park(scene, workers=2)
    for _ in range(20):
        await scene.place_one(case.organisation, case.organisation.scopes[0], f"order-{len(scene.placed)}")
    await _main_lane_is_empty(scene, case.hook)
    case.picky.dawdle_s, case.picky.refuses = 0.7 * scene.timeout_s, "nothing"
    fired()
    await _order_for_all(scene, case.organisation, 2)
    await scene.until_delivered(40)


async def parked_and_rewound(scene: Scene) -> None:
    """Rewound to before the refused event, while the receiver refuses everything: the pauses still hold."""
    fired = scene.faults.announce("rewound while parked")
    case = await _park(scene)
    await _main_lane_is_empty(scene, case.hook)
    await scene.change(case.hook, account_ids=case.accounts)
    case.picky.refuses = "everything"
    events = await scene.call(case.organisation, "GET", "/v1/events?order=asc&limit=1")
    path = f"/v1/webhooks/{case.hook.id}/rewind"
    await scene.call(case.organisation, "POST", path, {"event_id": events["data"][0]["event_id"]})
    fired()
    before, started = len(case.receiver.exchanges), time.monotonic()
    await asyncio.sleep(WATCHED_S)
    heard = len(case.receiver.exchanges) - before
    scene.note(f"{heard} requests in {time.monotonic() - started:.0f} s of refusals")
    scene.require(heard <= MAX_REQUESTS_WATCHED, f"a receiver that refuses everything got {heard} requests in 2 s")
    # Back behind the newest filter, another one: events from now on are judged by it, not by one from before.
    await scene.change(case.hook, account_ids=case.accounts[1:])
    case.picky.refuses = "nothing"
    await _order_for_all(scene, case.organisation, 2)
    await scene.until_delivered(20)


async def parked_with_many(scene: Scene) -> None:
    """However many events the refused account has in a row: those of the others behind them are found."""
    fired = scene.faults.announce("account parked with many events")
    organisation = await scene.open_organisation(2)
    picky = Picky(organisation.scopes[0].account_id)
    hook = await scene.register(organisation, await scene.receiver("picky", picky.behave))
    await append_events(scene, organisation.scopes[:1], MANY)
    for _ in range(3):
        await scene.place_one(organisation, organisation.scopes[1], f"order-{len(scene.placed)}")
    scene.start_worker()
    await _main_lane_is_empty(scene, hook)
    fired()
    picky.refuses = "nothing"
    await scene.until_delivered(20)


SCENARIOS = (
    Scenario("parked-account", parked_and_freed),
    Scenario("parked-taken-slowly", parked_and_taken),
    Scenario("parked-with-many", parked_with_many),
    Scenario("parked-rewound", parked_and_rewound, settings=_EAGER),
)
