"""How an order of an account can be paid, and why a way is not available."""

from msgspec import Struct

from tonne.money.cards.gateways.card import CardDetails
from tonne.selling.accounts.model import Account, Billing, Fulfil, PaymentMethod

BILLING = {
    Billing.PER_ORDER: "Each order is billed alone",
    Billing.MONTHLY: "Orders are billed together at the end of the month",
    Billing.THRESHOLD: "Orders are billed together at a threshold, at the latest at the end of the month",
}


class PaymentWay(Struct, frozen=True):
    """`refusal` says why it cannot be chosen, and is empty if it can. `needs_card`: a card must be added first."""

    method: PaymentMethod
    label: str
    what: str
    refusal: str = ""
    needs_card: bool = False


def payment_ways(account: Account, card: CardDetails | None, *, takes_cards: bool) -> tuple[PaymentWay, PaymentWay]:
    """Invoice and card. Orders that are billed together are paid as the account pays."""
    return _invoice(account), _card(account, card, takes_cards=takes_cards)


def _invoice(account: Account) -> PaymentWay:
    what = "The invoice comes by mail. The order is fulfilled as soon as it is paid."
    if account.billing is not Billing.PER_ORDER:
        what = f"{BILLING[account.billing]}."
    elif account.fulfil is Fulfil.ON_ORDER:
        what = "The invoice comes by mail. The order is fulfilled at once, within the credit limit."
    return PaymentWay(PaymentMethod.INVOICE, "Invoice", what, _refusal(account, PaymentMethod.INVOICE))


def _card(account: Account, card: CardDetails | None, *, takes_cards: bool) -> PaymentWay:
    refusal = _refusal(account, PaymentMethod.CARD)
    if not takes_cards:
        refusal = "Card payment is not set up here."
    if card is None:
        return PaymentWay(PaymentMethod.CARD, "Card", "No card is stored yet.", refusal, needs_card=not refusal)
    what = f"{card.brand.capitalize()} ending in {card.last_four}, expires {card.expires}."
    if account.billing is not Billing.PER_ORDER:
        what += f" {BILLING[account.billing]}."
    return PaymentWay(PaymentMethod.CARD, "Card", what, refusal)


def _refusal(account: Account, method: PaymentMethod) -> str:
    if account.billing is Billing.PER_ORDER or account.payment_method is method:
        return ""
    return f"{BILLING[account.billing]}, and this account pays by {account.payment_method}."
