from datetime import datetime

from msgspec import Struct, field

from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.send_mail import is_mail_address
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import Actor, Mode, Scope
from tonne.platform.values.language import LanguageCode
from tonne.platform.values.replace import replace
from tonne.selling.accounts import store
from tonne.selling.accounts.errors import LiveAccountCannotWait, MailAddressInvalid
from tonne.selling.accounts.lookup import require_account
from tonne.selling.accounts.model import Account, PagesVisibility, PaymentMethod
from tonne.selling.accounts.open_account import audited_values
from tonne.selling.accounts.organisations.change_billing import BillingChange, with_billing
from tonne.selling.accounts.organisations.open_organisation import check_name
from tonne.selling.accounts.unique_fields import require_unique_fields


class AccountChange(Struct, frozen=True, kw_only=True):
    """Fields that are None keep their value."""

    name: str | None = None
    beneficiary: str | None = None
    # The account's name takes the place of the beneficiary.
    removes_beneficiary: bool = False
    payment_method: PaymentMethod | None = None
    auto_advance: bool | None = None
    # An empty address removes the old one.
    receipt_email: str | None = None
    card_email: str | None = None
    refunds_by_api: bool | None = None
    language: LanguageCode | None = None
    external_pages_visibility: PagesVisibility | None = None
    # Empty texts remove the old ones.
    handle: str | None = None
    idempotency_key: str | None = None
    reference: str | None = None
    billing: BillingChange = field(default_factory=BillingChange)


async def change_account(
    tx: Connection, scope: Scope, change: AccountChange, *, actor: Actor, now: datetime
) -> Account:
    """Orders placed earlier keep the old values."""
    # Until the commit: otherwise the audit log could name values that another change has replaced.
    await store.lock_account(tx, scope)
    account = await require_account(tx, scope)
    if change.auto_advance is False and scope.mode is Mode.LIVE:
        raise LiveAccountCannotWait
    name = check_name(change.name or account.name)
    has_own = not change.removes_beneficiary and (account.has_own_beneficiary or bool(change.beneficiary))
    changed = replace(
        account,
        name=name,
        beneficiary=check_name(change.beneficiary or account.beneficiary) if has_own else name,
        has_own_beneficiary=has_own,
        payment_method=change.payment_method or account.payment_method,
        auto_advance=account.auto_advance if change.auto_advance is None else change.auto_advance,
        receipt_email=_changed_address(account.receipt_email, change.receipt_email),
        card_email=_changed_address(account.card_email, change.card_email),
        refunds_by_api=account.refunds_by_api if change.refunds_by_api is None else change.refunds_by_api,
        language=change.language or account.language,
        external_pages_visibility=change.external_pages_visibility or account.external_pages_visibility,
        handle=_changed_text(account.handle, change.handle),
        idempotency_key=_changed_text(account.idempotency_key, change.idempotency_key),
        reference=_changed_text(account.reference, change.reference),
    )
    await require_unique_fields(tx, changed)
    changed = with_billing(changed, change.billing)
    await store.update_account(tx, changed)
    await audit.record(
        tx, scope, "account.updated", actor=actor, at=now, before=audited_values(account), after=audited_values(changed)
    )
    return changed


def _changed_text(old: str | None, new: str | None) -> str | None:
    return old if new is None else new or None


def _changed_address(old: str | None, new: str | None) -> str | None:
    if new is None:
        return old
    if new and not is_mail_address(new):
        raise MailAddressInvalid
    return new or None
