"""Have registries retire what is on the work list: record a request, commit, ask, look up what is in doubt, and book.

A worker may be killed between any two steps. `rules.py` says why no unit is retired twice.
"""

import asyncio
import secrets
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog

from tonne.platform.db.batches import run_each
from tonne.platform.db.database import Connection, Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode, job_actor, new_id, replace
from tonne.supply.registries import account_store, instruction_store, rules
from tonne.supply.registries.book_answer import book_answer
from tonne.supply.registries.gateway import BOOKS_WRONG, Answer, Instruction, Outcome, RegistryAccounts
from tonne.supply.registries.instruction_store import Open, Waiting
from tonne.supply.registries.rules import State
from tonne.supply.retirements.confirmations.work_list import Task, merge_tasks
from tonne.supply.stock.parcels import instructed_parcels

ACTOR = job_actor("retire_units")
BATCH = 100
# Longer than any request to a registry takes.
LEASE = timedelta(minutes=1)
# Requests at the same time.
AT_ONCE = 4

_log = structlog.get_logger()


class _Step(NamedTuple):
    """`is_request`: the registry is asked; otherwise the result of an earlier request is looked up."""

    open: Open
    is_request: bool


class RetireUnits:
    """A job of the worker."""

    def __init__(self, database: Database, clock: Clock, settings: Settings, accounts: RegistryAccounts) -> None:
        self._database = database
        self._clock = clock
        self._settings = settings
        self._accounts = accounts

    async def run_once(self, parcel_ids: Collection[str] | None = None) -> bool:
        """False if nothing was due. `parcel_ids`: only for these."""
        due = await self._database.commit(self._claim, parcel_ids)
        for i in range(0, len(due), AT_ONCE):
            await asyncio.gather(*(self._advance_safely(each) for each in due[i : i + AT_ONCE]))
        return bool(due)

    async def _claim(self, tx: Connection, parcel_ids: Collection[str] | None) -> list[_Step]:
        """Record requests for parcels that wait, and lease what is due. Those to be sent are marked as sent: that is
        committed before they leave."""
        now = self._clock()
        for mode in Mode:
            wait = timedelta(seconds=self._settings.registry_batch_s if mode is Mode.LIVE else 0)
            waiting = await instruction_store.find_waiting_any_account(tx, mode, now - wait, parcel_ids)
            if waiting:
                await account_store.save_accounts(tx, self._accounts.values())
                await record_instructions(tx, mode, waiting, now)
        claimed = await instruction_store.claim(tx, now, LEASE, BATCH, parcel_ids)
        is_new = [each.progress.state is State.RECORDED for each in claimed]
        return [
            _Step(await self._mark_asked(tx, each), is_request=True) if new else _Step(each, is_request=False)
            for each, new in zip(claimed, is_new, strict=True)
        ]

    async def _mark_asked(self, tx: Connection, each: Open) -> Open:
        now = self._clock()
        asked = rules.asked(each.progress, now)
        await instruction_store.set_progress(tx, each.instruction.id, asked, now, next_attempt_at=now + LEASE)
        return replace(each, progress=asked)

    async def _advance_safely(self, step: _Step) -> None:
        await run_each(
            [step],
            self._advance,
            failure_event="registry_not_asked",
            describe=lambda each: {"instruction_id": each.open.instruction.id},
        )

    async def _advance(self, step: _Step) -> None:
        instruction = step.open.instruction
        account = self._accounts.get(instruction.registry_account)
        if account is None:
            answer = Answer(outcome=Outcome.UNAVAILABLE, message="No gateway of this account is configured.")
            await self._database.commit(self._settle, step, answer)
            return
        gateway = account.gateway
        if step.is_request:
            answer = await gateway.retire(instruction)
        else:
            answer = await gateway.look_up(instruction)
            if rules.may_resend(step.open.progress, answer, self._clock()):
                step = _Step(step.open, is_request=await self._database.commit(self._resend, instruction.id))
                answer = await gateway.retire(instruction) if step.is_request else answer
        await self._database.commit(self._settle, step, answer)

    async def _resend(self, tx: Connection, instruction_id: str) -> bool:
        """False if another worker has an answer meanwhile."""
        current = await instruction_store.lock(tx, instruction_id)
        if current is None or current.progress.state is not State.ASKED:
            return False
        await self._mark_asked(tx, current)
        return True

    async def _settle(self, tx: Connection, step: _Step, answer: Answer) -> None:
        """Parcels are locked before the instruction."""
        now, instruction = self._clock(), step.open.instruction
        problem = answer.message
        if answer.outcome is Outcome.RETIRED:
            problem = await book_answer(tx, instruction, answer, settings=self._settings, by=ACTOR.at(now))
        elif answer.outcome is Outcome.DECLINED:
            await instructed_parcels.lock_instructed_any_account(tx, instruction.mode, instruction.id)
        current = await instruction_store.lock(tx, instruction.id)
        if current is None:
            return
        progress = rules.answered(current.progress, answer, by_request=step.is_request)
        if progress.state is State.RETIRED and problem is not None:
            # The look-up finds the same answer again, until it can be booked.
            progress = replace(progress, state=current.progress.state)
            _log.error("registry_answer_not_booked", instruction_id=instruction.id, reason=problem)
        await instruction_store.set_progress(
            tx,
            instruction.id,
            progress,
            now,
            next_attempt_at=None if progress.state in rules.CLOSED else rules.next_look(current.looks, now),
            registry_reference=answer.registry_reference,
            problem=problem,
        )
        if progress.state in rules.CLOSED and answer.next_holding_id is not None:
            await instructed_parcels.set_holding(tx, instruction.lot_id, answer.next_holding_id)
        if progress.state is State.DECLINED:
            await self._give_back(tx, instruction, answer)

    async def _give_back(self, tx: Connection, instruction: Instruction, answer: Answer) -> None:
        """The parcels wait again if our books of the lot are wrong; otherwise a person retires them."""
        words = answer.message or answer.code or "The registry gave no reason."
        _log.warning("registry_declined", instruction_id=instruction.id, code=answer.code, message=words)
        note = None if answer.code in BOOKS_WRONG else f"{instruction.registry_account} refused it: {words}"[:500]
        await instructed_parcels.release_any_account(tx, instruction.mode, [instruction.id], note)
        if note is None:
            reason = f"{instruction.registry_account} refused {instruction.reference}: {words}"[:500]
            await instructed_parcels.pause_lot(tx, instruction.lot_id, reason, self._clock())


async def record_instructions(tx: Connection, mode: Mode, waiting: Sequence[Waiting], now: datetime) -> None:
    """One for each holding: the parcels of the beneficiary that has waited for the longest."""
    first: dict[str, Waiting] = {}
    for each in waiting:
        first.setdefault(each.lot_id, each)
    chosen = [each.id for each in waiting if each.retired_as == first[each.lot_id].retired_as]
    locked = await instructed_parcels.lock_waiting_any_account(tx, mode, chosen)
    lines: dict[str, Task] = {}
    for line in merge_tasks(await instruction_store.list_tasks_any_account(tx, mode, locked)):
        lines.setdefault(line.lot_id, line)
    instructions = {
        line.lot_id: Instruction(
            mode=mode,
            id=new_id("rin"),
            registry_account=first[line.lot_id].registry_account,
            lot_id=line.lot_id,
            holding_id=first[line.lot_id].holding_id,
            units=tuple(line.runs),
            beneficiary=line.named,
            reference=f"T-{secrets.token_hex(8)}",
        )
        for line in lines.values()
    }
    recorded = await instruction_store.insert(tx, mode, list(instructions.values()), now)
    parcels = {
        parcel_id: instructions[lot_id].id
        for lot_id, line in lines.items()
        if instructions[lot_id].id in recorded
        for parcel_id in line.parcel_ids
    }
    await instructed_parcels.instruct_any_account(tx, mode, parcels)
