"""Export planned returns as a file for the bank. Each is exported once; a batch can be written again by its id."""

from collections.abc import Sequence
from datetime import date, datetime, timedelta

from msgspec import Struct

from tonne.money.bank import return_store
from tonne.money.bank.errors import ReturnInvalid, ReturnNotFound
from tonne.money.bank.formats.sepa_file import SEPA_CURRENCY, Payment, write_csv, write_sepa
from tonne.money.bank.transfer_model import BankReturn, ReturnStatus
from tonne.money.bank.transfer_store import lock_transfers_any_account, refresh_states_any_account
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.bank_accounts import OwnAccount, own_account
from tonne.platform.settings.currency_limits import limit_minor
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, Mode, new_id, replace
from tonne.selling.users.guarded_settings import approved_settings

# How long a small return waits for others to the same account.
SMALL_WAIT = timedelta(days=30)


class ReturnFile(Struct, frozen=True):
    """`left_out` are planned returns that are not in the file, each with the reason."""

    batch_id: str | None
    content: bytes
    exported: list[BankReturn]
    left_out: list[tuple[BankReturn, str]]


async def export_returns(
    tx: Connection, mode: Mode, currency: str, *, format_: str, settings: Settings, by: By
) -> ReturnFile:
    """Export all planned returns of a mode and currency, as `sepa` or `csv`: one payment for each account."""
    if format_ == "sepa" and currency != SEPA_CURRENCY:
        raise ReturnInvalid(f"SEPA pays in {SEPA_CURRENCY} only: export {currency} as CSV.")
    settings = await approved_settings(tx, settings)
    sender = own_account(settings, currency)
    if sender is None:
        raise ReturnInvalid(f"There is no own account for {currency}. Set TONNE_BANK_IBAN or TONNE_BANK_ACCOUNTS.")
    planned = await _lock_planned(tx, mode, currency)
    left_out = [(each, reason) for each in planned if (reason := _obstacle(each, settings)) is not None]
    kept_back = {each.id for each, _ in left_out}
    ready = [each for each in planned if each.id not in kept_back]
    small = find_small(ready, settings, by.at)
    left_out += [
        (each, f"waits for others to this account until {small[each.id]}: together they are below the minimum")
        for each in ready
        if each.id in small
    ]
    exported = _in_payments([each for each in ready if each.id not in small])
    if not exported:
        return ReturnFile(None, b"", [], left_out)
    batch_id = new_id("rtb").replace("_", "").upper()
    content = _write(exported, sender, batch_id, format_=format_, settings=settings, now=by.at)
    values = {"currency": currency, "own_iban": sender.iban, "format_": format_}
    await return_store.insert_batch(tx, batch_id, mode, content, **values, by=by)
    await return_store.mark_exported_any_account(tx, exported, batch_id)
    await refresh_states_any_account(tx, [each.transfer_id for each in exported])
    await audit.record_all(tx, _entries(exported, batch_id), by=by)
    return ReturnFile(batch_id, content, exported, left_out)


async def find_return_file(connection: Connection, batch_id: str) -> bytes:
    """The file of a batch as it was exported."""
    content = await return_store.find_batch(connection, batch_id)
    if content is None:
        raise ReturnNotFound(f"There is no batch {batch_id}.")
    return content


async def _lock_planned(tx: Connection, mode: Mode, currency: str) -> list[BankReturn]:
    found = await return_store.list_open_returns_any_account(tx, mode)
    await lock_transfers_any_account(tx, sorted({each.transfer_id for each in found}))
    # Read again: another export may have taken some before the lock.
    current = await return_store.list_open_returns_any_account(tx, mode)
    return [each for each in current if each.status is ReturnStatus.PLANNED and each.currency == currency]


def _obstacle(found: BankReturn, settings: Settings) -> str | None:
    if found.waits_for_approval(settings.return_approval_above):
        return "waits for a second person"
    if not found.to_iban:
        return "the payer's account is not known: set it with `tonne transfer redirect-return`"
    return None


def find_small(planned: Sequence[BankReturn], settings: Settings, now: datetime) -> dict[str, date]:
    """Planned returns that wait for others to the same account, each with its last day. A payment costs a fee."""
    waiting: dict[str, date] = {}
    for group in _by_account(planned):
        minimum = limit_minor(settings.bank_refund_minimum, group[0].currency)
        until = (min(each.created_at for each in group) + SMALL_WAIT).date()
        if minimum is not None and sum(each.amount_minor for each in group) < minimum and now.date() < until:
            waiting |= dict.fromkeys((each.id for each in group), until)
    return waiting


def _by_account(returns: Sequence[BankReturn]) -> list[list[BankReturn]]:
    groups: dict[tuple[str, str], list[BankReturn]] = {}
    for each in returns:
        groups.setdefault((each.to_iban, each.currency), []).append(each)
    return list(groups.values())


def _in_payments(returns: Sequence[BankReturn]) -> list[BankReturn]:
    """Those to one account are one payment, which has the id of the first."""
    return [
        replace(each, paid_with=None if each is group[0] else group[0].id)
        for group in _by_account(returns)
        for each in group
    ]


def _write(
    returns: list[BankReturn], sender: OwnAccount, batch_id: str, *, format_: str, settings: Settings, now: datetime
) -> bytes:
    payments = [
        Payment(
            first.payment_id,
            first.to_name,
            first.to_iban,
            first.to_bic,
            sum(each.amount_minor for each in group),
            first.currency,
            " ".join((first.payment_id, *dict.fromkeys(each.payer_reference for each in group))),
        )
        for group in _by_account(returns)
        for first in group[:1]
    ]
    if format_ == "csv":
        return write_csv(payments)
    name = settings.bank_account_holder or settings.seller_name
    return write_sepa(payments, sender, name=name, batch_id=batch_id, on=now.date(), now=now)


def _entries(exported: list[BankReturn], batch_id: str) -> list[audit.Entry]:
    return [
        audit.Entry(
            action="transfer.return_exported",
            subject_id=each.transfer_id,
            mode=each.mode,
            before={"status": ReturnStatus.PLANNED},
            after={"status": ReturnStatus.EXPORTED},
            details={"return_id": each.id, "amount": each.amount, "to_iban": each.to_iban, "batch_id": batch_id},
        )
        for each in exported
    ]
