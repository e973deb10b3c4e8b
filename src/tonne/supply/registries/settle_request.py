"""What a person has found out at a registry about a request in doubt. Another person approves it; then it is booked.

Units that are wrongly settled as not retired would be retired a second time.
"""

from datetime import date, datetime
from enum import StrEnum

import msgspec
from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, replace
from tonne.selling.users.approvals import ApprovalKind, Approver, Subject, approve
from tonne.supply.registries import instruction_store, rules, settlement_store
from tonne.supply.registries.book_answer import RetiredUnits, book_answers
from tonne.supply.registries.errors import RequestNotOpen, SettlementRefused
from tonne.supply.registries.gateway import Answer, Instruction, Outcome
from tonne.supply.registries.instruction_store import Open
from tonne.supply.registries.rules import State
from tonne.supply.registries.settlement_store import StoredSettlement
from tonne.supply.stock.parcels import instructed_parcels
from tonne.supply.stock.serial_runs import Numbers
from tonne_verify.serials.parse import parse
from tonne_verify.serials.units import SerialError


class RequestFinding(StrEnum):
    RETIRED = "retired"
    NOT_RETIRED = "not_retired"


class RequestSettlement(Struct, frozen=True, kw_only=True):
    """`serials` are those that the registry has retired. `next_holding_id` has what is left of the holding, if the
    registry has split it. `seen` is the state of the request when the person said so.
    """

    finding: RequestFinding
    reason: str
    retirement_url: str | None = None
    retired_on: date | None = None
    serials: tuple[str, ...] = ()
    next_holding_id: str | None = None
    seen: State | None = None

    @property
    def text(self) -> str:
        """For people."""
        if self.finding is RequestFinding.NOT_RETIRED:
            return f"Not retired: {self.reason}"
        return f"Retired on {self.retired_on}: {'; '.join(self.serials)}, {self.retirement_url}. {self.reason}"


class RequestedSettlement(Struct, frozen=True):
    """`missing` people must still approve it."""

    request_id: str
    settlement: RequestSettlement
    missing: int


def subject_of(stored: StoredSettlement) -> Subject:
    return Subject(
        kind=ApprovalKind.REGISTRY_REQUEST,
        id=stored.request_id,
        organisation_id=None,
        mode=stored.mode,
        requested_by=stored.requested_by,
        terms=(stored.document,),
    )


def read_settlement(stored: StoredSettlement) -> RequestSettlement:
    return msgspec.json.decode(stored.document, type=RequestSettlement)


async def request_settlement(
    tx: Connection, request_id: str, settlement: RequestSettlement, *, settings: Settings, by: By
) -> RequestedSettlement:
    """Note what is to be approved. It replaces what was noted before. Raises RequestNotOpen, SettlementRefused."""
    found = await _require_open(tx, request_id)
    settlement = replace(settlement, seen=found.progress.state)
    # Only tried: an approval is for something that can be booked.
    trial = tx.transaction()
    await trial.start()
    try:
        await _book(tx, found, settlement, found_at=by.at, settings=settings, by=by)
    finally:
        await trial.rollback()
    document = msgspec.json.encode(settlement).decode()
    await settlement_store.note(tx, request_id, document, by)
    mode = found.instruction.mode
    await audit.record(
        tx,
        None,
        "registry_request.settlement_requested",
        by=by,
        subject_id=request_id,
        mode=mode,
        settlement=settlement.text,
    )
    stored = StoredSettlement(request_id, mode, found.instruction.lot_id, document, str(by.actor), by.at)
    return RequestedSettlement(request_id, settlement, subject_of(stored).missing(()))


async def approve_settlement(
    tx: Connection, request_id: str, *, approver: Approver, settings: Settings, now: datetime
) -> RequestedSettlement:
    """Book it, unless another person must approve it, too. Raises SecondPersonNeeded."""
    stored = await settlement_store.find(tx, request_id)
    if stored is None:
        raise RequestNotOpen(f"Nobody has said what became of request {request_id}.")
    # Two approvals at the same time wait for each other here.
    await instructed_parcels.lock_lot_before_parcels(tx, stored.lot_id)
    found, settlement = await _require_open(tx, request_id), read_settlement(stored)
    missing = await approve(tx, subject_of(stored), approver, now)
    if not missing:
        by = approver.actor.at(now)
        await _book(tx, found, settlement, found_at=stored.requested_at, settings=settings, by=by)
        latest = await settlement_store.find(tx, request_id)
        if latest != stored:
            raise SettlementRefused("Somebody has changed what is to be approved. Look at the request again.")
        await audit.record(
            tx,
            None,
            "registry_request.settled",
            by=by,
            subject_id=request_id,
            mode=stored.mode,
            settlement=settlement.text,
            requested_by=stored.requested_by,
        )
    return RequestedSettlement(request_id, settlement, missing)


async def _require_open(tx: Connection, request_id: str) -> Open:
    found = await instruction_store.find_open(tx, request_id)
    if found is None:
        raise RequestNotOpen(f"Request {request_id} is not open: it has its result, or there is none.")
    return found


async def _book(
    tx: Connection, found: Open, settlement: RequestSettlement, *, found_at: datetime, settings: Settings, by: By
) -> None:
    """Lots are locked before parcels, and parcels before requests. `found_at`: when the person has looked."""
    instruction, is_retired = found.instruction, settlement.finding is RequestFinding.RETIRED
    await instructed_parcels.lock_lot_before_parcels(tx, instruction.lot_id)
    if is_retired:
        answer = Answer(
            outcome=Outcome.RETIRED,
            units=await _read_units(tx, instruction, settlement.serials),
            retired_on=settlement.retired_on,
            url=settlement.retirement_url,
        )
        problems = await book_answers(tx, [RetiredUnits(instruction, answer)], settings=settings, by=by)
        if instruction.id in problems:
            raise SettlementRefused(f"It cannot be booked: {problems[instruction.id]}")
    else:
        await instructed_parcels.lock_instructed_any_account(tx, [instruction.id])
    current = await instruction_store.lock(tx, instruction.id)
    if current is None:
        raise RequestNotOpen(f"Request {instruction.id} has got its result meanwhile.")
    # Under the lock: a worker may just have sent it again, or got an answer.
    if not rules.may_settle(current.progress, seen=settlement.seen, found_at=found_at):
        raise SettlementRefused(
            "The request may still have been on its way, or was answered since: wait until ten minutes after it was "
            "sent, then look at the registry again."
        )
    state = State.RETIRED if is_retired else State.DECLINED
    await instruction_store.set_progress(
        tx,
        instruction.id,
        replace(current.progress, state=state, in_doubt=0),
        by.at,
        next_attempt_at=None,
        problem=settlement.text[:500],
    )
    if not is_retired:
        await instructed_parcels.release_any_account(tx, instruction.mode, [instruction.id])
    if settlement.next_holding_id:
        account, used_id = instruction.registry_account, instruction.holding_id
        await instructed_parcels.set_holding(tx, account, used_id, settlement.next_holding_id)


async def _read_units(tx: Connection, instruction: Instruction, serials: tuple[str, ...]) -> tuple[Numbers, ...]:
    """Raises SettlementRefused for serials of another lot, and for more units than were asked for."""
    lot = await settlement_store.find_lot(tx, instruction.mode, instruction.lot_id)
    try:
        whole = parse(lot.registry, lot.serial, unit_grams=lot.unit_grams)
        read = [parse(lot.registry, serial, unit_grams=lot.unit_grams) for serial in serials]
    except SerialError as error:
        raise SettlementRefused(f"A serial cannot be read: {error}") from error
    wrong = next((s for s, units in zip(serials, read, strict=True) if units.namespace != whole.namespace), None)
    if wrong is not None or not read:
        raise SettlementRefused(f"Enter serials of the lot {lot.serial}, as the registry shows them.")
    if (count := sum(units.last - units.first + 1 for units in read)) > instruction.unit_count:
        raise SettlementRefused(f"These are {count} units, and {instruction.unit_count} were asked for.")
    return tuple((units.first, units.last) for units in read)
