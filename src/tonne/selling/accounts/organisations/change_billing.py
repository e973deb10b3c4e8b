"""The billing settings of an account, as an operator gives them."""

from typing import Annotated

from msgspec import Struct

from tonne.platform.values.amounts import DECIMALS, format_money, minimum_charge, parse_decimal, scaled
from tonne.platform.values.context import replace
from tonne.platform.web.fields import described
from tonne.selling.accounts.errors import BillingInvalid
from tonne.selling.accounts.model import Account, Billing, Fulfil, PaymentMethod, SmallCardOrders

_BILLING = described("Bill each order, or orders together: monthly, or at a threshold.", label="Billing")
_THRESHOLD = described(
    "The amount at which orders are billed with --billing threshold.",
    label="Billing threshold",
    option="--billing-threshold",
)
_FULFIL = described("Fulfil orders when they are paid, or at once within the credit limit.", label="Fulfilment")
_CREDIT_LIMIT = described(
    "The most that may be unpaid with --fulfil on_order.",
    label="Credit limit",
    hint="The most that may be unpaid at a time.",
)

_SMALL_ORDERS = described(
    "Orders too small for a card payment: fulfil them first, collect their price first, or refuse them.",
    label="Small card orders",
)


class BillingChange(Struct, frozen=True, kw_only=True):
    """Fields that are None keep their value. Amounts are decimals in the currency of the account."""

    billing: Annotated[Billing | None, _BILLING] = None
    threshold: Annotated[str | None, _THRESHOLD] = None
    fulfil: Annotated[Fulfil | None, _FULFIL] = None
    credit_limit: Annotated[str | None, _CREDIT_LIMIT] = None
    small_card_orders: Annotated[SmallCardOrders | None, _SMALL_ORDERS] = None


def with_billing(account: Account, change: BillingChange) -> Account:
    """The account with its new settings. Raises BillingInvalid if they do not fit together."""
    billing = change.billing or account.billing
    threshold_minor = account.billing_threshold_minor
    if change.threshold is not None:
        threshold_minor = _amount(change.threshold, account.currency)
    if billing is not Billing.THRESHOLD:
        if change.threshold is not None:
            raise BillingInvalid("Only `--billing threshold` has a threshold.")
        threshold_minor = None
    elif threshold_minor is None:
        raise BillingInvalid("Give the amount at which orders are billed: --billing-threshold.")
    fulfil = change.fulfil or account.fulfil
    limit_minor = account.credit_limit_minor
    if change.credit_limit is not None:
        limit_minor = _amount(change.credit_limit, account.currency)
    if fulfil is Fulfil.ON_ORDER and limit_minor is None:
        raise BillingInvalid("Orders are fulfilled before they are paid only within a limit: give --credit-limit.")
    changed = replace(
        account,
        billing=billing,
        billing_threshold_minor=threshold_minor,
        fulfil=fulfil,
        credit_limit_minor=limit_minor,
        small_card_orders=change.small_card_orders or account.small_card_orders,
    )
    if changed.payment_method is PaymentMethod.CARD:
        _check_card(changed)
    return changed


def _check_card(account: Account) -> None:
    if account.fulfil is Fulfil.ON_ORDER:
        # A card that is declined later would leave a debt that nothing collects.
        raise BillingInvalid(
            "Orders of an account that pays by card are fulfilled when the card was charged. Set --payment-method "
            "invoice, or --fulfil on_payment."
        )
    least = minimum_charge(account.currency)
    if account.billing_threshold_minor is not None and account.billing_threshold_minor < least:
        raise BillingInvalid(
            f"A card cannot be charged less than {format_money(least, account.currency)} {account.currency}. Give at "
            "least that as --billing-threshold."
        )


def _amount(text: str, currency: str) -> int:
    number = parse_decimal(text.strip())
    minor = None if number is None else scaled(number, DECIMALS[currency])
    if minor is None or minor <= 0:
        raise BillingInvalid(f"{text} is not an amount above 0 in {currency}, such as {format_money(1250, currency)}.")
    return minor
