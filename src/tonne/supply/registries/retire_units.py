"""Have registries retire what is on the work list: record a request, commit, ask, look up what is in doubt, and book.

A worker may be killed between any two steps. `rules.py` says why no unit is retired twice.
"""

import asyncio
import secrets
from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

import structlog

from tonne.platform.db.database import Connection, Database
from tonne.platform.db.errors import is_database_unavailable
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, Mode, job_actor, new_id, replace
from tonne.supply.registries import account_store, drift_store, instruction_store, rules
from tonne.supply.registries.book_answer import RetiredUnits, book_answers
from tonne.supply.registries.check_registries import pause
from tonne.supply.registries.drift_store import Cause, SeenDrift
from tonne.supply.registries.gateway import BOOKS_WRONG, Answer, Instruction, Outcome, RegistryAccounts
from tonne.supply.registries.instruction_store import Open, Waiting
from tonne.supply.registries.rules import State
from tonne.supply.retirements.confirmations.work_list import Task, merge_tasks
from tonne.supply.stock.parcels import instructed_parcels

ACTOR = job_actor("retire_units")
BATCH = 100
# Longer than any request to a registry takes.
LEASE = timedelta(minutes=1)
RETRY_AFTER = timedelta(seconds=2)
# Requests at the same time.
AT_ONCE = 4

_log = structlog.get_logger()


class _Step(NamedTuple):
    """`is_request`: the registry is asked; otherwise the result of an earlier request is looked up."""

    open: Open
    is_request: bool


class _Answered(NamedTuple):
    step: _Step
    answer: Answer


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
        slots, until = asyncio.Semaphore(AT_ONCE), self._clock() + LEASE / 2
        answered = await asyncio.gather(*(self._ask_safely(each, slots, until) for each in due))
        answers = [each for each in answered if each is not None]
        if answers:
            await self._settle_safely(answers)
        return bool(due)

    async def _claim(self, tx: Connection, parcel_ids: Collection[str] | None) -> list[Open]:
        """Record requests for parcels that wait, and lease what is due."""
        now = self._clock()
        for mode in Mode:
            wait = timedelta(seconds=self._settings.registry_batch_s if mode is Mode.LIVE else 0)
            waiting = await instruction_store.find_waiting_any_account(tx, mode, now - wait, parcel_ids)
            if waiting:
                await account_store.save_accounts(tx, self._accounts.values())
                await record_instructions(tx, mode, waiting, now)
        return await instruction_store.claim(tx, now, LEASE, BATCH, parcel_ids)

    async def _ask_safely(self, claimed: Open, slots: asyncio.Semaphore, until: datetime) -> _Answered | None:
        """What has had no turn by then is left to a later run: another worker may take it when the lease ends."""
        try:
            async with slots:
                return await self._ask(claimed) if self._clock() < until else None
        except Exception as error:
            if is_database_unavailable(error):
                raise
            await self._postpone(claimed)
            return None

    async def _settle_safely(self, answers: Sequence[_Answered]) -> None:
        """All together; if that fails, for example by a lock time-out, one by one."""
        try:
            await self._database.commit(self._settle, answers)
        except Exception as error:
            if is_database_unavailable(error):
                raise
            if len(answers) == 1:
                await self._postpone(answers[0].step.open)
                return
            _log.warning("batch_failed", failure_event="registry_answer_not_stored", error=repr(error))
            for each in answers:
                await self._settle_safely([each])

    async def _postpone(self, claimed: Open) -> None:
        """Look it up again soon."""
        instruction_id = claimed.instruction.id
        _log.exception("registry_answer_not_stored", instruction_id=instruction_id)
        await self._database.commit(instruction_store.postpone, instruction_id, self._clock() + RETRY_AFTER)

    async def _ask(self, claimed: Open) -> _Answered | None:
        """None if nothing was asked: another worker does, or the request was given back."""
        instruction = claimed.instruction
        account = self._accounts.get(instruction.registry_account)
        if account is None:
            message = "No gateway of this account is configured."
            return _Answered(_Step(claimed, is_request=False), Answer(outcome=Outcome.UNAVAILABLE, message=message))
        if claimed.progress.state is not State.RECORDED:
            answer = await account.gateway.look_up(instruction)
            if not rules.may_resend(claimed.progress, answer, self._clock()):
                return _Answered(_Step(claimed, is_request=False), answer)
        sent_at = await self._database.commit(self._mark_asked, claimed)
        if sent_at is None:
            return None
        if self._clock() - sent_at > LEASE:
            # It would arrive when everybody believes that all copies have arrived.
            answer = Answer(outcome=Outcome.UNAVAILABLE, message="The request could not be sent in time.")
        else:
            answer = await account.gateway.retire(instruction)
        return _Answered(_Step(claimed, is_request=True), answer)

    async def _mark_asked(self, tx: Connection, claimed: Open) -> datetime | None:
        """Committed before the request leaves. None if it must not: somebody has changed it since it was claimed, or
        its parcels are not to be retired now."""
        instruction, is_new = claimed.instruction, claimed.progress.state is State.RECORDED
        # What waits for a result stays as it is, whatever became of the lot.
        obstacle = await instruction_store.find_obstacle_any_account(tx, instruction) if is_new else None
        if obstacle is not None:
            await instructed_parcels.lock_instructed_any_account(tx, [instruction.id])
        current = await instruction_store.lock(tx, instruction.id)
        if current is None or current.progress != claimed.progress:
            return None
        now = self._clock()
        if obstacle is not None:
            await instruction_store.set_progress(
                tx, instruction.id, rules.given_back(current.progress), now, next_attempt_at=None, problem=obstacle
            )
            await instructed_parcels.release_any_account(tx, instruction.mode, [instruction.id])
            return None
        asked = rules.asked(current.progress, now)
        await instruction_store.set_progress(tx, instruction.id, asked, now, next_attempt_at=now + LEASE)
        return now

    async def _settle(self, tx: Connection, answers: Sequence[_Answered]) -> None:
        """Lots that change are locked before parcels, and parcels before instructions."""
        now = self._clock()
        for step, answer in sorted(answers, key=lambda each: each.step.open.instruction.lot_id):
            is_other = bool(answer.units) and list(answer.units) != list(step.open.instruction.units)
            if answer.next_holding_id is not None or answer.outcome is Outcome.DECLINED or is_other:
                await instructed_parcels.lock_lot_before_parcels(tx, step.open.instruction.lot_id)
        declined = [each.step.open.instruction.id for each in answers if each.answer.outcome is Outcome.DECLINED]
        await instructed_parcels.lock_instructed_any_account(tx, declined)
        retired = [RetiredUnits(s.open.instruction, a) for s, a in answers if a.outcome is Outcome.RETIRED]
        problems = await book_answers(tx, retired, settings=self._settings, by=ACTOR.at(now))
        for step, answer in sorted(answers, key=lambda each: each.step.open.instruction.id):
            await self._store(tx, step, answer, problems.get(step.open.instruction.id))
        await self._note_answers(tx, answers, now)

    async def _note_answers(self, tx: Connection, answers: Sequence[_Answered], now: datetime) -> None:
        of_accounts: dict[tuple[str, Mode], list[Answer]] = {}
        for step, answer in answers:
            asked = step.open.instruction
            of_accounts.setdefault((asked.registry_account, asked.mode), []).append(answer)
        for (account_id, mode), given in sorted(of_accounts.items()):
            failed = [each for each in given if each.outcome in {Outcome.UNAVAILABLE, Outcome.UNKNOWN}]
            problem = failed[-1].message or "There was no answer." if failed else ""
            worked = len(failed) < len(given)
            if await account_store.note_answers(
                tx, account_id, worked=worked, failed=len(failed), problem=problem, now=now
            ):
                action, by = "registry_account.stopped", ACTOR.at(now)
                await audit.record(tx, None, action, by=by, subject_id=account_id, mode=mode, problem=problem)

    async def _store(self, tx: Connection, step: _Step, answer: Answer, problem: str | None) -> None:
        """`problem`: why the answer could not be booked."""
        now, instruction = self._clock(), step.open.instruction
        current = await instruction_store.lock(tx, instruction.id)
        if current is None:
            return
        progress = rules.answered(current.progress, answer, by_request=step.is_request)
        is_invalid = progress.state in rules.CLOSED and await instructed_parcels.is_invalid(tx, instruction.lot_id)
        if progress.state is State.RETIRED and problem is not None:
            _log.error("registry_answer_not_booked", instruction_id=instruction.id, reason=problem)
            if is_invalid:
                # Which units they were does not matter: all orders get others.
                await instructed_parcels.release_any_account(tx, instruction.mode, [instruction.id])
            else:
                # The look-up finds the same answer again, until it can be booked.
                progress = replace(progress, state=current.progress.state)
        await instruction_store.set_progress(
            tx,
            instruction.id,
            progress,
            now,
            next_attempt_at=None if progress.state in rules.CLOSED else rules.next_look(progress, current.looks, now),
            registry_reference=answer.registry_reference,
            problem=problem or answer.message,
        )
        if progress.state in rules.CLOSED and answer.next_holding_id is not None:
            account, used_id = instruction.registry_account, instruction.holding_id
            await instructed_parcels.set_holding(tx, account, used_id, answer.next_holding_id)
        if progress.state is State.DECLINED:
            await self._give_back(tx, instruction, answer)
        elif progress.state is State.RETIRED and is_invalid:
            await self._note_drift(tx, instruction, Cause.INVALID, answer.unit_count)
        elif progress.state is State.RETIRED and (more := answer.unit_count - instruction.unit_count) > 0:
            reason = f"{instruction.registry_account} has retired {more} units more than {instruction.reference} says."
            await pause(tx, instruction.mode, instruction.lot_id, reason, by=ACTOR.at(now))
            await self._note_drift(tx, instruction, Cause.DIFFERENCE, more)

    async def _give_back(self, tx: Connection, instruction: Instruction, answer: Answer) -> None:
        """The parcels wait again if our books of the lot are wrong; otherwise a person retires them."""
        words = answer.message or answer.code or "The registry gave no reason."
        _log.warning("registry_declined", instruction_id=instruction.id, code=answer.code, message=words)
        note = None if answer.code in BOOKS_WRONG else f"{instruction.registry_account} refused it: {words}"[:500]
        await instructed_parcels.release_any_account(tx, instruction.mode, [instruction.id], note)
        by = ACTOR.at(self._clock())
        await audit.record(
            tx,
            None,
            "registry_request.refused",
            by=by,
            subject_id=instruction.id,
            mode=instruction.mode,
            reason=words,
            code=answer.code,
        )
        if note is None:
            reason = f"{instruction.registry_account} refused {instruction.reference}: {words}"[:500]
            await pause(tx, instruction.mode, instruction.lot_id, reason, by=by)
            await self._note_drift(tx, instruction, Cause.REFUSED, instruction.unit_count)

    async def _note_drift(self, tx: Connection, instruction: Instruction, cause: Cause, units: int) -> None:
        account = self._accounts[instruction.registry_account]
        seen = SeenDrift(lot_id=instruction.lot_id, units=units, cause=cause, is_certain=True)
        await drift_store.note_drifts(tx, account, [seen], self._clock())


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
