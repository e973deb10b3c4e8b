"""A webhook is changed while a request of its is under way: the receiver holds the request until the change is made."""

import asyncio
import time
from dataclasses import dataclass

from chaos.bystander import Bystander
from chaos.receivers import Call, Receiver
from chaos.scenarios.scenario import Scenario
from chaos.scene import Hook, Organisation, Scene
from chaos.volume import append_events

QUIET_S = 1.0
OVERLAP_S = 4


class Gate:
    """A behaviour that keeps requests waiting until it is opened."""

    def __init__(self) -> None:
        self.arrived = asyncio.Event()
        self.open = asyncio.Event()

    async def behave(self, call: Call) -> None:
        self.arrived.set()
        await self.open.wait()
        call.answer(200)


@dataclass(frozen=True, slots=True)
class Case:
    organisation: Organisation
    receiver: Receiver
    hook: Hook
    gate: Gate

    @property
    def accounts(self) -> list[str]:
        return [scope.account_id for scope in self.organisation.scopes]


async def _request_under_way(scene: Scene, name: str, only_accounts: int = 0) -> Case:
    gate = Gate()
    organisation = await scene.open_organisation()
    receiver = await scene.receiver(name, gate.behave)
    account_ids = [scope.account_id for scope in organisation.scopes[:only_accounts]]
    hook = await scene.register(organisation, receiver, account_ids)
    for scope in organisation.scopes:
        await append_events(scene, [scope], 6)
    async with asyncio.timeout(20):
        await gate.arrived.wait()
    return Case(organisation, receiver, hook, gate)


async def _rotated(scene: Scene) -> None:
    fired = scene.faults.announce("secret rotated")
    case = await _request_under_way(scene, "rotated")
    await scene.rotate(case.hook, 0)
    fired()
    case.gate.open.set()
    await scene.place(case.organisation, 4)


async def _rotated_with_overlap(scene: Scene) -> None:
    fired = scene.faults.announce("secret rotated with overlap")
    case = await _request_under_way(scene, "overlapping")
    await scene.rotate(case.hook, OVERLAP_S)
    fired()
    case.gate.open.set()
    ends_s = time.monotonic() + OVERLAP_S + 2
    while time.monotonic() < ends_s:
        await scene.place(case.organisation, 1)
        await asyncio.sleep(0.4)


async def _disabled(scene: Scene) -> None:
    fired = scene.faults.announce("disabled")
    case = await _request_under_way(scene, "disabled")
    await scene.change(case.hook, enabled=False)
    fired()
    await _expect_silence(scene, case)
    await scene.change(case.hook, enabled=True)


async def _deleted(scene: Scene) -> None:
    fired = scene.faults.announce("deleted")
    case = await _request_under_way(scene, "deleted")
    await scene.call(case.organisation, "DELETE", f"/v1/webhooks/{case.hook.id}")
    case.hook.removed = True
    fired()
    await _expect_silence(scene, case)


async def _moved(scene: Scene) -> None:
    """The old receiver's acknowledgement counts for nothing: the new one gets everything that was under way."""
    fired = scene.faults.announce("url changed")
    case = await _request_under_way(scene, "moved-from")
    new = await scene.receiver("moved-to")
    await scene.change(case.hook, url=new.url)
    case.hook.receivers.append(new.name)
    fired()
    await _expect_silence(scene, case)
    held = case.receiver.exchanges[0].body_length
    first = new.exchanges[0].body_length if new.exchanges else 0
    scene.require(first >= held, "the new address did not get what was under way to the old one")


async def _narrowed(scene: Scene) -> None:
    fired = scene.faults.announce("filter narrowed")
    case = await _request_under_way(scene, "narrowed")
    await scene.change(case.hook, account_ids=case.accounts[:1])
    before = len(case.receiver.exchanges)
    fired()
    case.gate.open.set()
    await scene.place(case.organisation, 10)
    await asyncio.sleep(QUIET_S)
    later = [case.receiver.recorder.body_of(exchange) for exchange in case.receiver.exchanges[before:]]
    foreign = [account for account in case.accounts[1:] if any(account.encode() in body for body in later)]
    scene.require(not foreign, "events of accounts out of scope were sent after the filter was narrowed")
    scene.require(bool(later), "nothing was sent after the filter was narrowed")


async def _widened(scene: Scene) -> None:
    fired = scene.faults.announce("filter widened")
    case = await _request_under_way(scene, "widened", only_accounts=1)
    await scene.change(case.hook, account_ids=[])
    fired()
    case.gate.open.set()
    await scene.place(case.organisation, 10)


async def _rewound(scene: Scene) -> None:
    """The acknowledgement of what was under way must not move the cursor past what is to go out again."""
    fired = scene.faults.announce("rewound")
    case = await _request_under_way(scene, "rewound")
    events = await scene.call(case.organisation, "GET", "/v1/events?order=asc&limit=1")
    path = f"/v1/webhooks/{case.hook.id}/rewind"
    await scene.call(case.organisation, "POST", path, {"event_id": events["data"][0]["event_id"]})
    fired()
    case.gate.open.set()
    await scene.place(case.organisation, 4)


async def _expect_silence(scene: Scene, case: Case) -> None:
    """The request under way is answered; after it, none goes to this receiver."""
    before = len(case.receiver.exchanges)
    case.gate.open.set()
    await scene.place(case.organisation, 4)
    await asyncio.sleep(QUIET_S)
    more = len(case.receiver.exchanges) - before
    scene.require(more == 0, f"receiver {case.receiver.name} got {more} requests after it was out of use")


async def changed_under_way(scene: Scene) -> None:
    """Each change has its own organisation; all are made side by side."""
    scene.start_worker()
    bystander = await Bystander(scene).open()
    await bystander.before()
    async with asyncio.TaskGroup() as cases:
        cases.create_task(bystander.compare())
        for case in (
            *(_rotated, _rotated_with_overlap, _disabled, _deleted, _moved),
            *(_narrowed, _widened, _rewound),
        ):
            cases.create_task(case(scene))
    await scene.until_delivered(20)


SCENARIOS = (Scenario("changed-under-way", changed_under_way),)
