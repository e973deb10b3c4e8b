"""Two registries without credits that anybody could buy, for test mode and the demo.

`sim-key` returns one answer per key, as Puro does; at `sim-holding`, whatever uses a holding splits or retires it, as
at Isometric. Names of beneficiaries reproduce refusals and network failures.
"""

import asyncio
import tomllib
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Literal

import msgspec

from tonne.platform.db.database import Connection, Database
from tonne.platform.values.context import Clock, Mode
from tonne.supply.registries import simulated_store as store
from tonne.supply.registries.gateway import (
    HOLDING_UNKNOWN,
    HOLDING_USED,
    INSUFFICIENT,
    Answer,
    Holding,
    Instruction,
    Movement,
    Outcome,
    RegistryAccount,
    RegistryAccounts,
    Repeat,
)
from tonne.supply.registries.simulated_store import Retirement, SimulatedHolding
from tonne.supply.stock.serial_runs import Numbers


class Trigger(msgspec.Struct, frozen=True, kw_only=True):
    beneficiary: str = ""
    recorded: Literal["retired", "pending", "declined", "late", "lost"] | None = None
    returned: Outcome | None = None
    later: Literal["retired", "declined"] | None = None
    code: str | None = None
    message: str | None = None
    delay_s: float = 0
    is_doubled: bool = False
    keeps_one: bool = False
    is_drifting: bool = False
    takes_last: bool = False
    behaviour: str = ""


_FILE = Path(__file__).parent / "simulated_registries.toml"
TRIGGERS = msgspec.convert(tomllib.loads(_FILE.read_text(encoding="utf-8"))["trigger"], tuple[Trigger, ...])
_BY_BENEFICIARY = {trigger.beneficiary: trigger for trigger in TRIGGERS}
_SERVED = Trigger(recorded="retired")
# The request is on its way, or will never arrive.
_UNDELIVERED = frozenset({"late", "lost"})


class SimulatedRegistry:
    """Keeps its books in tables of its own, and never writes in the caller's transaction: a crash between a retirement
    and its record stays possible, as with a real registry. It raises if the database cannot be reached.
    """

    def __init__(self, database: Database, account: str, repeat: Repeat, clock: Clock) -> None:
        self._database = database
        self._account = account
        self._repeat = repeat
        self._clock = clock

    async def retire(self, instruction: Instruction) -> Answer:
        if instruction.mode is not Mode.TEST:
            return Answer(outcome=Outcome.UNAVAILABLE, message="Live credits are not at a simulated registry.")
        trigger = _BY_BENEFICIARY.get(instruction.beneficiary, _SERVED)
        if trigger.delay_s:
            await asyncio.sleep(trigger.delay_s)
        if trigger.returned is Outcome.UNAVAILABLE:
            return Answer(outcome=Outcome.UNAVAILABLE, code=trigger.code, message=trigger.message)
        for _ in range(1 + trigger.is_doubled):
            answer = await self._database.commit(self._serve, instruction, trigger)
        return answer

    async def look_up(self, instruction: Instruction) -> Answer:
        async with self._database.transaction() as tx:
            found = await store.find(tx, self._account, instruction.id)
            if found is None or found.state == "lost":
                return Answer(outcome=Outcome.NOT_FOUND)
            if found.state == "late":
                # It arrives when this look-up is over.
                await self._serve(tx, instruction, _SERVED)
                return Answer(outcome=Outcome.NOT_FOUND)
            if found.later is not None:
                await store.finish(tx, self._account, found)
                found = await store.find(tx, self._account, instruction.id) or found
            return await self._answer(tx, found)

    async def list_holdings(self) -> Sequence[Holding]:
        await self._database.commit(store.deposit, self._account, None)
        return await self._database.run(store.list_holdings, self._account)

    async def read_balance(self) -> int:
        return sum(holding.unit_count for holding in await self.list_holdings())

    async def list_movements(self, since: datetime) -> Sequence[Movement]:
        return await self._database.run(store.list_movements, self._account, since)

    async def _serve(self, tx: Connection, instruction: Instruction, trigger: Trigger) -> Answer:
        """Act on one copy of a request."""
        await store.deposit(tx, self._account, instruction.holding_id)
        holding = await store.lock_holding(tx, self._account, instruction.holding_id)
        stored = await store.find(tx, self._account, instruction.id)
        is_delivered = stored is not None and stored.state not in _UNDELIVERED
        # `sim-holding` knows no keys: it finds who has used a holding.
        if stored is not None and is_delivered and (self._repeat is Repeat.KEY or (holding and holding.is_used)):
            return await self._answer(tx, stored)
        if stored is not None:
            trigger = _SERVED
        if trigger.recorded in _UNDELIVERED:
            await self._save(tx, instruction, trigger.recorded, (), trigger)
            return Answer(outcome=Outcome.UNKNOWN)
        if holding is None:
            return await self._refuse(tx, instruction, HOLDING_UNKNOWN, "There is no such holding.")
        if (refusal := self._refusal(holding, instruction, trigger)) is not None:
            return await self._refuse(tx, instruction, *refusal)
        units = instruction.units if self._repeat is Repeat.KEY else ()
        if trigger.takes_last:
            units = store.last_units(holding.active, instruction.unit_count)
        units = units or store.first_units(holding.active, instruction.unit_count)
        if trigger.keeps_one and store.count(units) > 1:
            units = store.first_units(units, store.count(units) - 1)
        made = await self._save(tx, instruction, trigger.recorded or "retired", units, trigger)
        if trigger.is_drifting:
            units += await self._drift(tx, holding, instruction, units)
        await store.use(tx, self._account, holding.id, units, splits=self._repeat is Repeat.HOLDING)
        answer = await self._answer(tx, made)
        return answer if trigger.returned is None else Answer(outcome=trigger.returned)

    def _refusal(
        self, holding: SimulatedHolding, instruction: Instruction, trigger: Trigger
    ) -> tuple[str | None, str | None] | None:
        """Code and words."""
        if holding.is_used:
            return HOLDING_USED, "Another retirement has used the holding."
        if trigger.recorded == "declined":
            return trigger.code, trigger.message
        enough = store.count(holding.active) >= instruction.unit_count
        if self._repeat is Repeat.KEY:
            enough = all(any(a <= first and last <= b for a, b in holding.active) for first, last in instruction.units)
        return None if enough else (INSUFFICIENT, "The holding does not have these units.")

    async def _refuse(self, tx: Connection, instruction: Instruction, code: str | None, message: str | None) -> Answer:
        """`sim-key` stores the refusal for the key. A used holding stays used."""
        is_final = self._repeat is Repeat.KEY or code == HOLDING_USED
        if self._repeat is Repeat.KEY:
            await self._save(tx, instruction, "declined", (), Trigger(code=code, message=message))
        return Answer(outcome=Outcome.DECLINED, code=code, message=message, is_final=is_final)

    async def _drift(
        self, tx: Connection, holding: SimulatedHolding, instruction: Instruction, units: tuple[Numbers, ...]
    ) -> tuple[Numbers, ...]:
        """The last unit that is left, which somebody else retires."""
        last = holding.active[-1][1]
        if last == units[-1][1]:
            return ()
        taken = ((last, last),)
        await store.save_stranger(tx, self._account, instruction, taken, self._clock())
        return taken

    async def _save(
        self, tx: Connection, instruction: Instruction, state: str, units: tuple[Numbers, ...], trigger: Trigger
    ) -> Retirement:
        made = Retirement(state, units, self._clock(), trigger.later, trigger.code, trigger.message)
        return await store.save(tx, self._account, instruction, made)

    async def _answer(self, tx: Connection, found: Retirement) -> Answer:
        is_declined = found.state == "declined"
        # A copy that comes later is answered alike. Rejecting may have freed a holding, which could be used again.
        is_final = self._repeat is Repeat.KEY or await store.is_used(tx, self._account, found.holding_id)
        return Answer(
            outcome=Outcome(found.state),
            registry_reference=f"sim_{found.key}",
            units=found.units if found.state == "retired" else (),
            retired_on=found.created_at.date(),
            next_holding_id=await store.find_child(tx, self._account, found.holding_id),
            code=found.code if is_declined else None,
            message=found.message if is_declined else None,
            is_final=is_declined and is_final,
        )


def simulated_registries(database: Database, clock: Clock) -> RegistryAccounts:
    kinds = {"sim-key": (Repeat.KEY, 1_000_000), "sim-holding": (Repeat.HOLDING, 1_000)}
    return {
        id_: RegistryAccount(id_, Mode.TEST, "simulated", SimulatedRegistry(database, id_, repeat, clock), unit_grams)
        for id_, (repeat, unit_grams) in kinds.items()
    }
