from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.amounts import DECIMALS
from tonne.platform.values.context import Actor
from tonne.selling.accounts import store
from tonne.selling.accounts.errors import CurrencyUnknown
from tonne.selling.accounts.lookup import require_organisation
from tonne.selling.accounts.model import Account
from tonne.selling.accounts.organisations.open_organisation import check_name
from tonne.selling.accounts.unique_fields import require_unique_fields


async def open_account(tx: Connection, account: Account, *, actor: Actor) -> Account:
    """The currency can never change: the account's orders and invoices are in it."""
    await require_organisation(tx, account.scope.organisation_id)
    check_name(account.name)
    check_name(account.beneficiary)
    if account.currency not in DECIMALS:
        raise CurrencyUnknown(
            f"{account.currency} is not a known currency. Use an ISO 4217 code such as EUR.", field="currency"
        )
    await require_unique_fields(tx, account)
    scope = account.scope
    await store.insert_account(tx, account)
    await audit.record(tx, scope, "account.opened", actor=actor, at=account.created_at, after=audited_values(account))
    return account


def audited_values(account: Account) -> audit.Values:
    """The account's values, as they are stored in the audit log."""
    return {
        "name": account.name,
        "kind": account.kind,
        "currency": account.currency,
        "beneficiary": account.beneficiary,
        "payment_method": account.payment_method,
        "auto_advance": account.auto_advance,
        "billing": account.billing,
        "billing_threshold_minor": account.billing_threshold_minor,
        "fulfil": account.fulfil,
        "credit_limit_minor": account.credit_limit_minor,
        "refunds_by_api": account.refunds_by_api,
        "language": account.language,
        "external_pages_visibility": account.external_pages_visibility,
        **({} if account.has_own_beneficiary else {"has_own_beneficiary": False}),
        **({"handle": account.handle} if account.handle else {}),
        **({"sibling_id": account.sibling_id} if account.sibling_id else {}),
        **({"idempotency_key": account.idempotency_key} if account.idempotency_key else {}),
        **({"reference": account.reference} if account.reference else {}),
        **({"receipt_email": account.receipt_email} if account.receipt_email else {}),
        **({"card_email": account.card_email} if account.card_email else {}),
    }
