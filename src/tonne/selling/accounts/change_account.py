"""Change an account, and close accounts and organisations, and open them again.

A closed account orders nothing new, and its own keys stop working. Open orders finish, webhooks deliver their events,
and the data stays.
"""

import re
from typing import Annotated, Any

from msgspec import Struct, field
from msgspec.structs import asdict

from tonne.platform.db.database import Connection
from tonne.platform.documents.mail.send_mail import is_mail_address
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.context import Actor, By, Mode, Scope, replace
from tonne.platform.values.language import LanguageCode
from tonne.platform.web.fields import described
from tonne.selling.accounts import errors, limit_store, store
from tonne.selling.accounts.account_schemas import BENEFICIARY, HANDLE, LANGUAGE, METHOD, NAME, REFERENCE, VISIBILITY
from tonne.selling.accounts.lookup import require_account, require_organisation
from tonne.selling.accounts.model import MANUAL, Account, PagesVisibility, PaymentMethod
from tonne.selling.accounts.organisations.change_billing import BillingChange, with_billing
from tonne.selling.accounts.organisations.change_organisation import check_name


async def require_unique_fields(tx: Connection, account: Account) -> None:
    """Raises HandleNotUnique or AccountIdempotencyExists if another account has the handle or the key.

    Locks the organisation's mode until the commit, so that two requests cannot choose the same at once.
    """
    if account.handle is None and account.idempotency_key is None:
        return
    await store.lock_organisation_mode(tx, account.scope)
    own_id = account.scope.account_id
    if account.handle is not None:
        owner = await store.find_handle_owner(tx, account.scope, account.handle)
        if owner not in {None, own_id}:
            raise errors.HandleNotUnique(field="handle")
    if account.idempotency_key is not None:
        found = await store.find_by_idempotency_key(tx, account.scope, account.idempotency_key)
        if found is not None and found.scope.account_id != own_id:
            raise errors.AccountIdempotencyExists(field="idempotency_key")


async def open_account(tx: Connection, account: Account, *, actor: Actor) -> Account:
    """The currency can never change: the account's orders and invoices are in it."""
    await require_organisation(tx, account.scope.organisation_id)
    check_name(account.name)
    check_name(account.beneficiary)
    if account.currency not in DECIMALS:
        raise errors.CurrencyUnknown(
            f"{account.currency} is not a known currency. Use an ISO 4217 code such as EUR.", field="currency"
        )
    await require_unique_fields(tx, account)
    scope = account.scope
    await store.insert_account(tx, account)
    await audit.record(tx, scope, "account.opened", by=actor.at(account.created_at), after=audited_values(account))
    return account


_AUDITED = (
    *("name", "kind", "currency", "beneficiary", "payment_method", "auto_advance", "billing"),
    *("billing_threshold_minor", "fulfil", "credit_limit_minor", "small_card_orders", "refunds_by_api", "language"),
    "external_pages_visibility",
)
MAX_FULFIL_DELAY_H = 2_160
HOURS = re.compile("[0-9]{1,4}")
# Only if they are set.
_AUDITED_OPTIONS = (
    "fulfil_delay",
    "handle",
    "sibling_id",
    "idempotency_key",
    "reference",
    "receipt_email",
    "card_email",
)


def audited_values(account: Account) -> audit.Values:
    """The account's values, as they are stored in the audit log."""
    values = asdict(account)
    own = {} if account.has_own_beneficiary else {"has_own_beneficiary": False}
    options = {name: values[name] for name in _AUDITED_OPTIONS if values[name]}
    return {name: values[name] for name in _AUDITED} | own | options


_AUTO_ADVANCE = described(
    "Test accounts: advance orders automatically, or wait for the test helpers.",
    label="Orders advance on their own",
    hint="Otherwise they wait for the test helpers of the API.",
    option="--advance/--wait",
)
_RECEIPT_EMAIL = described(
    "Who gets a receipt for each order paid by the stored card. Empty: nobody.",
    label="Receipts to",
    hint="Gets a receipt for each order that is paid by the stored card.",
    input="email",
)
_CARD_EMAIL = described(
    "Who is mailed about problems with the card. Empty: the organisation's admins.",
    label="Card problems to",
    hint="Gets a mail if the card is declined or a payment has to be confirmed. If empty, the admins of the "
    "organisation get it.",
    input="email",
)
_FULFIL_DELAY = described(
    "How many hours a paid order waits until it is fulfilled, up to 2160, or `manual`: until its client releases it, "
    "at most 90 days. Until then it can be cancelled and reduced. 0: it does not wait.",
    label="Hours until fulfilment",
    hint="A paid order waits so long, up to 2,160, and can be cancelled or reduced. Enter manual if each order waits "
    "for its release, at most 90 days.",
    option="--fulfil-delay",
)
_REFUNDS_BY_API = described("Let its API keys refund orders and cancel paid ones.", label="Refunds by API")


class AccountChange(Struct, frozen=True, kw_only=True):
    """Fields that are None keep their value."""

    name: Annotated[str | None, NAME] = None
    beneficiary: Annotated[str | None, BENEFICIARY] = None
    # The account's name takes the place of the beneficiary.
    removes_beneficiary: bool = False
    payment_method: Annotated[PaymentMethod | None, METHOD] = None
    auto_advance: Annotated[bool | None, _AUTO_ADVANCE] = None
    # An empty address removes the old one.
    receipt_email: Annotated[str | None, _RECEIPT_EMAIL] = None
    card_email: Annotated[str | None, _CARD_EMAIL] = None
    refunds_by_api: Annotated[bool | None, _REFUNDS_BY_API] = None
    # `0` removes the old one.
    fulfil_delay: Annotated[str | None, _FULFIL_DELAY] = None
    language: Annotated[LanguageCode | None, LANGUAGE] = None
    external_pages_visibility: Annotated[PagesVisibility | None, VISIBILITY] = None
    # Empty texts remove the old ones.
    handle: Annotated[str | None, HANDLE] = None
    idempotency_key: str | None = None
    reference: Annotated[str | None, REFERENCE] = None
    billing: BillingChange = field(default_factory=BillingChange)


async def change_account(tx: Connection, scope: Scope, change: AccountChange, *, by: By) -> Account:
    """Orders placed earlier keep the old values."""
    # Until the commit: otherwise the audit log could name values that another change has replaced.
    await store.lock_account(tx, scope)
    account = await require_account(tx, scope)
    if change.auto_advance is False and scope.mode is Mode.LIVE:
        raise errors.LiveAccountCannotWait
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
        fulfil_delay=_changed_delay(account.fulfil_delay, change.fulfil_delay),
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
        tx,
        scope,
        "account.updated",
        by=by,
        before=audited_values(account),
        after=audited_values(changed),
    )
    return changed


def _changed_text(old: str | None, new: str | None) -> str | None:
    return old if new is None else new or None


def _changed_delay(old: str | None, new: str | None) -> str | None:
    if new is None or new == MANUAL:
        return new or old
    if not HOURS.fullmatch(new) or int(new) > MAX_FULFIL_DELAY_H:
        raise errors.FulfilDelayInvalid(field="fulfil_delay")
    return str(int(new)) if int(new) else None


def _changed_address(old: str | None, new: str | None) -> str | None:
    if new is None:
        return old
    if new and not is_mail_address(new):
        raise errors.MailAddressInvalid
    return new or None


async def close_account(tx: Connection, scope: Scope, reason: str, *, by: By) -> None:
    await store.lock_account(tx, scope)
    if (await limit_store.find_limits(tx, scope)).closed_at is not None:
        raise errors.AccountAlreadyClosed
    await limit_store.set_closed(tx, scope, by.at, reason)
    await _record(tx, scope, "account.closed", is_closed=True, reason=reason, by=by)


async def reopen_account(tx: Connection, scope: Scope, *, by: By) -> None:
    await store.lock_account(tx, scope)
    if (await limit_store.find_limits(tx, scope)).closed_at is None:
        raise errors.AccountNotClosed
    await limit_store.set_closed(tx, scope, None, None)
    await _record(tx, scope, "account.reopened", is_closed=False, reason=None, by=by)


async def close_organisation(tx: Connection, organisation_id: str, reason: str, *, by: By) -> list[Scope]:
    """Returns the scopes of its accounts. Each account is open again when the organisation is, unless itself closed."""
    await require_organisation(tx, organisation_id)
    await store.lock_organisation(tx, organisation_id)
    if await limit_store.find_organisation_closed(tx, organisation_id) is not None:
        raise errors.OrganisationAlreadyClosed
    await limit_store.set_organisation_closed(tx, organisation_id, by.at, reason)
    await _record(tx, organisation_id, "organisation.closed", is_closed=True, reason=reason, by=by)
    return [account.scope for account in await store.list_accounts(tx, organisation_id)]


async def reopen_organisation(tx: Connection, organisation_id: str, *, by: By) -> list[Scope]:
    """Returns the scopes of the accounts that are now open."""
    await require_organisation(tx, organisation_id)
    await store.lock_organisation(tx, organisation_id)
    if await limit_store.find_organisation_closed(tx, organisation_id) is None:
        raise errors.OrganisationNotClosed
    await limit_store.set_organisation_closed(tx, organisation_id, None, None)
    await _record(tx, organisation_id, "organisation.reopened", is_closed=False, by=by)
    scopes = [account.scope for account in await store.list_accounts(tx, organisation_id)]
    return [scope for scope in scopes if (await limit_store.find_limits(tx, scope)).closed_at is None]


async def _record(tx: Connection, owner: Scope | str, action: str, *, is_closed: bool, by: By, **details: Any) -> None:
    before, after = {"closed": not is_closed}, {"closed": is_closed}
    await audit.record(tx, owner, action, by=by, before=before, after=after, **details)


# Archive client accounts, and end it. Of an archived account nothing new is ordered; everything can be read.


async def archive_account(tx: Connection, scope: Scope, *, archived: bool, by: By) -> Account:
    """Repeating it changes nothing: the first time is kept."""
    await store.lock_account(tx, scope)
    account = await require_account(tx, scope)
    if (account.archived_at is not None) is archived:
        return account
    archived_at = by.at if archived else None
    await store.set_archived(tx, scope, archived_at)
    await audit.record(
        tx,
        scope,
        "account.archived" if archived else "account.unarchived",
        by=by,
        before={"archived": not archived},
        after={"archived": archived},
    )
    return replace(account, archived_at=archived_at)
