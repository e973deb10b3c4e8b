"""Money that goes back: planned as a line of the list of returns, approved by a second person where needed, undone.

Money goes back only to the account that it came from. Another account, an unknown one, or a high amount needs a second
person.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from msgspec import Struct

from tonne.money.bank import assignment_store, return_store, transfer_store
from tonne.money.bank.errors import ReturnInvalid, ReturnNotFound
from tonne.money.bank.formats.statement import signed_money
from tonne.money.bank.return_store import NOT_BOOKED, BookedReturn
from tonne.money.bank.transfer_model import Assignment, BankReturn, PaidInvoice, ReturnStatus, Transfer
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, new_id
from tonne.platform.values.iban import compact_iban, is_iban
from tonne.selling.users.approvals import Approver, approve
from tonne.selling.users.errors import SecondPersonNeeded
from tonne.selling.users.guarded_settings import approved_settings

OPEN = frozenset({ReturnStatus.PLANNED, ReturnStatus.EXPORTED})
_SENT = frozenset({ReturnStatus.EXPORTED, ReturnStatus.RETURNED})


class ReturnTo(Struct, frozen=True):
    """Another account than the payer's, and the name of its holder."""

    iban: str
    name: str = ""


async def plan_return(
    tx: Connection,
    invoice: PaidInvoice,
    amount_minor: int,
    *,
    reason: str,
    by: By,
) -> list[BankReturn]:
    """Plan to refund a part or all of what an invoice received by bank transfer.

    The returns are lines of `tonne transfer export-returns`: of the newest transfer that covers the amount, otherwise
    of as few transfers as possible. The money stays assigned to the invoice, so that the invoice still counts as paid;
    the caller records why it is refunded, with a credit note or a refund, and keeps the ids of the returns:
    `return_store.find_returns_any_account` tells their status (planned, exported, returned, failed, cancelled). The
    caller has locked the orders and the invoice.

    Raises ReturnInvalid if the invoice has received less than that, for example because it was settled by hand.
    """
    available = await _refundable(tx, invoice)
    parts = split_refund([minor for _, minor in available], amount_minor)
    planned = [
        _compose(available[place][0], minor, invoice_id=invoice.id, reason=reason, by=by) for place, minor in parts
    ]
    if not parts:
        received = sum(minor for _, minor in available)
        raise ReturnInvalid(
            f"Invoice {invoice.reference} has {signed_money(received, invoice.currency)} left from bank transfers: "
            f"{signed_money(amount_minor, invoice.currency)} cannot go back by bank."
        )
    await _insert(tx, planned, invoice.organisation_id, by=by)
    return planned


def split_refund(available: Sequence[int], amount_minor: int) -> list[tuple[int, int]]:
    """How much to take of which of these amounts, newest first: of one that covers it, else of as few as possible.

    Empty if they do not cover it.
    """
    if not 0 < amount_minor <= sum(available):
        return []
    for place, minor in enumerate(available):
        if minor >= amount_minor:
            return [(place, amount_minor)]
    parts = []
    for place, minor in sorted(enumerate(available), key=lambda each: -each[1]):
        parts.append((place, min(minor, amount_minor)))
        amount_minor -= parts[-1][1]
        if not amount_minor:
            break
    return parts


async def return_part_payments(tx: Connection, invoice: PaidInvoice, *, by: By) -> int:
    """Turn what a cancelled invoice received into money to return. Returns the sum; the invoice is locked."""
    received = _by_transfer(await assignment_store.list_received_any_account(tx, invoice.id))
    if not received:
        return 0
    assignments = [each for group in received.values() for each in group]
    reason = f"Invoice {invoice.reference} was cancelled before it was paid in full."
    await assignment_store.undo_assignments_any_account(tx, invoice, assignments, note=reason, by=by)
    transfers = await transfer_store.lock_transfers_any_account(tx, sorted(received))
    planned = [
        _compose(
            each,
            sum(part.amount_minor for part in received[each.id]),
            reason=reason,
            by=by,
        )
        for each in transfers
    ]
    await _insert(tx, planned, invoice.organisation_id, by=by)
    return sum(each.amount_minor for each in planned)


async def return_transfer(
    tx: Connection,
    transfer_id: str,
    amount_minor: int | None,
    *,
    reason: str,
    to: ReturnTo | None,
    by: By,
) -> BankReturn:
    """Plan to return what is left of a transfer, or a part of that."""
    transfer = await transfer_store.lock_transfer_any_account(tx, transfer_id)
    amount_minor = transfer.rest_minor if amount_minor is None else amount_minor
    if transfer.amount_minor < 0 or not 0 < amount_minor <= transfer.rest_minor:
        raise ReturnInvalid(
            f"Transfer {transfer.id} has {transfer.rest} left that is assigned to no invoice and not on its way back."
        )
    if to is not None and not is_iban(to.iban):
        raise ReturnInvalid("The IBAN is not valid: its check digits are wrong.")
    new = _compose(transfer, amount_minor, to=to, reason=reason, by=by)
    await _insert(tx, [new], transfer.organisation_id, by=by)
    return new


async def approve_return(tx: Connection, return_id: str, *, approver: Approver, now: datetime) -> BankReturn:
    """Returns it with the approvals so far: another person may have to approve it, too. Raises SecondPersonNeeded."""
    found = await lock_return(tx, return_id)
    if found.status is not ReturnStatus.PLANNED or found.approved_by is not None:
        raise ReturnInvalid(f"Return {found.id} does not wait for approval: it is {found.status}.")
    if not await approve(tx, found.subject, approver, now):
        by = approver.actor.at(now)
        await _record(tx, found, "transfer.return_approved", by=by, planned_by=found.created_by)
    [approved] = await return_store.find_returns_any_account(tx, [found.id])
    return approved


async def redirect_return(tx: Connection, return_id: str, to: ReturnTo, note: str, *, by: By) -> BankReturn:
    """Send a planned return to another account, or to the payer's if that was not known. A second person approves."""
    found = await lock_return(tx, return_id)
    if found.status is not ReturnStatus.PLANNED:
        raise ReturnInvalid(f"Return {found.id} is {found.status}: only a planned return can go to another account.")
    if not is_iban(to.iban):
        raise ReturnInvalid("The IBAN is not valid: its check digits are wrong.")
    iban = compact_iban(to.iban)
    [transfer] = await transfer_store.lock_transfers_any_account(tx, [found.transfer_id])
    is_other = iban != transfer.payer_iban
    await return_store.redirect_any_account(
        tx, found.id, iban, to.name or found.to_name, to_other_account=is_other, actor=by.actor
    )
    before, after = {"to_iban": found.to_iban}, {"to_iban": iban}
    await _record(tx, found, "transfer.return_redirected", by=by, before=before, after=after, note=note)
    [changed] = await return_store.find_returns_any_account(tx, [found.id])
    return changed


async def cancel_return(tx: Connection, return_id: str, note: str, *, by: By) -> BankReturn:
    """A planned return is not made after all. The money waits for a decision again, or stays with its invoice."""
    found = await lock_return(tx, return_id)
    if found.status is not ReturnStatus.PLANNED:
        raise ReturnInvalid(f"Return {found.id} is {found.status}: only a planned return can be cancelled.")
    await close_return(tx, found, ReturnStatus.CANCELLED, note=note, by=by)
    return found


async def fail_return(
    tx: Connection, return_id: str, note: str, *, incoming_id: str | None = None, by: By
) -> BankReturn:
    """The bank did not execute an exported return, or it came back. The money waits for a decision again.

    So does that of all returns of the same payment.

    `incoming_id` is the transfer that brought it back. It is then dealt with: the money is that of the first transfer.
    """
    found, *others = await lock_payment(tx, return_id, incoming_id)
    if found.status not in _SENT:
        raise ReturnInvalid(f"Return {found.id} is {found.status}: it was not sent to the bank.")
    payment = [found, *(each for each in others if each.status in _SENT)]
    line = NOT_BOOKED
    if incoming_id is not None:
        line = await _take_back(tx, payment, incoming_id, by=by)
    elif found.outgoing_id is not None:
        # Its money would be counted twice as soon as the line is imported that shows it coming back.
        raise ReturnInvalid(
            f"A bank statement shows that return {found.id} was paid. If it came back, import the statement that shows "
            "that, and name its line with --transfer."
        )
    for each in payment:
        await close_return(tx, each, ReturnStatus.FAILED, note=note, by=by, line=line)
    return found


async def _take_back(tx: Connection, payment: Sequence[BankReturn], incoming_id: str, *, by: By) -> BookedReturn:
    """Resolve the transfer that brought a payment back. The bank may have kept a fee."""
    found, amount_minor = payment[0], sum(each.amount_minor for each in payment)
    incoming = await transfer_store.lock_transfer_any_account(tx, incoming_id)
    is_same_money = (incoming.mode, incoming.currency) == (found.mode, found.currency)
    is_untouched = incoming.rest_minor == incoming.amount_minor
    if not is_same_money or not is_untouched or not 0 < incoming.amount_minor <= amount_minor:
        amount = signed_money(amount_minor, found.currency)
        raise ReturnInvalid(
            f"Transfer {incoming.id} of {incoming.amount} cannot be return {found.id} of {amount} coming back: "
            "it must be unmatched, in the same currency, and not higher."
        )
    note = f"Return {found.id} came back"
    await transfer_store.add_resolution_any_account(tx, incoming, is_payout=False, note=note, by=by)
    await transfer_store.refresh_states_any_account(tx, [incoming.id])
    return BookedReturn(incoming.booked_on, incoming_id=incoming.id)


async def confirm_return(tx: Connection, return_id: str, note: str, *, settings: Settings, by: By) -> BankReturn:
    """Record that the money of a payment has gone back, without a line of a statement."""
    found, *others = await lock_payment(tx, return_id)
    if found.status not in OPEN:
        raise ReturnInvalid(f"Return {found.id} is already {found.status}.")
    if found.waits_for_approval((await approved_settings(tx, settings)).return_approval_above):
        raise SecondPersonNeeded(f"Return {found.id} needs the approval of a second person.")
    for each in (found, *others):
        if each.status in OPEN:
            await close_return(tx, each, ReturnStatus.RETURNED, note=note, by=by)
    return found


async def close_return(
    tx: Connection,
    found: BankReturn,
    status: ReturnStatus,
    *,
    note: str,
    by: By,
    line: BookedReturn = NOT_BOOKED,
) -> None:
    """Set the final status of a return whose transfer is locked."""
    await return_store.set_status_any_account(tx, found.id, status, note=note, closed_at=by.at, line=line)
    await transfer_store.refresh_states_any_account(tx, [found.transfer_id])
    action = "transfer.returned" if status is ReturnStatus.RETURNED else f"transfer.return_{status}"
    await _record(tx, found, action, by=by, before={"status": found.status}, after={"status": status}, note=note)


async def lock_return(tx: Connection, return_id: str) -> BankReturn:
    """Lock the transfer of a return, and read the return after that."""
    found = await return_store.find_returns_any_account(tx, [return_id])
    if not found:
        raise ReturnNotFound
    await transfer_store.lock_transfers_any_account(tx, [found[0].transfer_id])
    [locked] = await return_store.find_returns_any_account(tx, [return_id])
    return locked


async def lock_payment(tx: Connection, return_id: str, incoming_id: str | None = None) -> list[BankReturn]:
    """Lock the transfers of all returns of a payment, and read these after that: the named one first.

    `incoming_id` is a transfer that is locked with them, in the order of the ids.
    """
    ids = {each.transfer_id for each in await return_store.list_returns_of_payment_any_account(tx, return_id)}
    if not ids:
        raise ReturnNotFound
    await transfer_store.lock_transfers_any_account(tx, [*ids, *([] if incoming_id is None else [incoming_id])])
    payment = await return_store.list_returns_of_payment_any_account(tx, return_id)
    return sorted(payment, key=lambda each: each.id != return_id)


async def _refundable(tx: Connection, invoice: PaidInvoice) -> list[tuple[Transfer, int]]:
    """The transfers of an invoice, newest first, each with what it paid and was not refunded yet."""
    received = _by_transfer(await assignment_store.list_received_any_account(tx, invoice.id))
    transfers = {each.id: each for each in await transfer_store.lock_transfers_any_account(tx, sorted(received))}
    found = []
    for transfer_id, parts in received.items():
        refunds = await return_store.list_returns_of_transfer_any_account(tx, transfer_id)
        open_or_done = {ReturnStatus.PLANNED, ReturnStatus.EXPORTED, ReturnStatus.RETURNED}
        gone = sum(
            each.amount_minor for each in refunds if each.invoice_id == invoice.id and each.status in open_or_done
        )
        found.append((transfers[transfer_id], sum(part.amount_minor for part in parts) - gone))
    return sorted(found, key=lambda each: (each[0].booked_on, each[0].id), reverse=True)


def _by_transfer(assignments: Sequence[Assignment]) -> dict[str, list[Assignment]]:
    """The assignments that were not undone, in their order."""
    groups: dict[str, list[Assignment]] = {}
    for each in assignments:
        if not each.undone:
            groups.setdefault(each.transfer_id, []).append(each)
    return groups


def _compose(
    transfer: Transfer,
    amount_minor: int,
    *,
    reason: str,
    by: By,
    to: ReturnTo | None = None,
    invoice_id: str | None = None,
) -> BankReturn:
    iban = transfer.payer_iban if to is None else compact_iban(to.iban)
    is_same_account = bool(transfer.payer_iban) and iban == transfer.payer_iban
    return BankReturn(
        id=new_id("ret"),
        transfer_id=transfer.id,
        invoice_id=invoice_id,
        mode=transfer.mode,
        organisation_id=transfer.organisation_id,
        own_account=transfer.own_account,
        currency=transfer.currency,
        amount_minor=amount_minor,
        to_iban=iban,
        to_bic=transfer.payer_bic if is_same_account else "",
        to_name=transfer.payer if to is None or not to.name else to.name,
        reason=reason,
        status=ReturnStatus.PLANNED,
        to_other_account=not is_same_account,
        payer_reference=transfer.reference,
        created_at=by.at,
        created_by=str(by.actor),
    )


async def _insert(tx: Connection, planned: Sequence[BankReturn], organisation_id: str | None, *, by: By) -> None:
    for each in planned:
        await return_store.insert_return(tx, each)
    await transfer_store.refresh_states_any_account(tx, [each.transfer_id for each in planned])
    entries = [
        audit.Entry(
            action="transfer.return_planned",
            subject_id=each.transfer_id,
            organisation_id=organisation_id,
            mode=each.mode,
            details={
                "return_id": each.id,
                "amount": each.amount,
                "to_iban": each.to_iban,
                "reason": each.reason,
                "to_other_account": each.to_other_account,
            },
        )
        for each in planned
    ]
    await audit.record_all(tx, entries, by=by)


async def _record(tx: Connection, found: BankReturn, action: str, *, by: By, **values: Any) -> None:
    """`values` are those of `audit.record`."""
    details = {"return_id": found.id, "amount": found.amount, **values}
    await audit.record(tx, None, action, by=by, subject_id=found.transfer_id, mode=found.mode, **details)
