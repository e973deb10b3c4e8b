"""The form of a checkout's payment page: the name for the certificate, and as whom the customer orders.

A card number is never kept: not in the page that shows the form again, and not in the database.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from tonne.channels.checkout.create_checkout import NAME_FIELD, PUBLIC_FIELD, collected, read_customer_name
from tonne.channels.checkout.errors import ConsentMissing
from tonne.channels.checkout.paying.consent import (
    BUSINESS_FIELD,
    CONSENT_FIELD,
    VERSION_FIELD,
    BuyerKind,
    Consent,
    WithdrawalText,
)
from tonne.channels.checkout.paying.pay_checkout import Agreed, CheckoutPayer
from tonne.money.cards.read_test_card import card_number_in, read_test_card
from tonne.platform.values.errors import TonneError
from tonne.selling.orders.model import Beneficiary

Fields = Mapping[str, Sequence[str]]
WAITING_FIELD = "accepts_waiting"
# In the order of the page.
FIELDS = ("card_number", NAME_FIELD, CONSENT_FIELD)


class PaymentForm(Struct, frozen=True):
    """As the customer has filled it in."""

    name: str = ""
    is_name_public: bool = False
    is_business: bool = False
    # The version of the text beside the box that was ticked.
    agreed_version: str = ""
    # Has been told that nothing is held while they pay, so that delivery may wait.
    accepts_waiting: bool = False


class AskedFields(Struct, frozen=True):
    """Which fields the page has: the test card, the name for the certificate."""

    card: bool
    name: bool


def read_payment_form(fields: Fields) -> PaymentForm:
    return PaymentForm(
        name=_one(fields, NAME_FIELD)[:200],
        is_name_public=bool(_one(fields, PUBLIC_FIELD)),
        is_business=bool(_one(fields, BUSINESS_FIELD)),
        agreed_version=_one(fields, VERSION_FIELD) if _one(fields, CONSENT_FIELD) else "",
        accepts_waiting=bool(_one(fields, WAITING_FIELD)),
    )


def form_of(consent: Consent | None) -> PaymentForm:
    """What the customer agreed to when a payment of the same checkout failed."""
    if consent is None:
        return PaymentForm()
    return PaymentForm(is_business=consent.buyer is BuyerKind.BUSINESS, agreed_version=consent.version or "")


def consent_in(form: PaymentForm, text: WithdrawalText | None, now: datetime) -> Consent | None:
    """None if customers are not asked. Raises ConsentMissing, also if the text has changed since the page was shown."""
    if text is None:
        return None
    if form.is_business:
        return Consent(BuyerKind.BUSINESS, None, text.language, now)
    if form.agreed_version != text.version:
        raise ConsentMissing(field=CONSENT_FIELD)
    return Consent(BuyerKind.CONSUMER, text.version, text.language, now)


def read_payer(
    fields: Fields,
    asked: AskedFields,
    text: WithdrawalText | None,
    faults: list[TonneError],
    *,
    now: datetime,
    language: str,
) -> tuple[str, CheckoutPayer]:
    """The number of the test card, and who pays. Adds all faults of the fields."""
    form, number = read_payment_form(fields), ""
    customer: Beneficiary | None = None
    agreed: Agreed | None = None
    with collected(faults):
        number = read_test_card(card_number_in(fields)) if asked.card else ""
    with collected(faults):
        customer = read_customer_name(form.name, is_public=form.is_name_public) if asked.name else None
    with collected(faults):
        consent = consent_in(form, text, now)
        agreed = None if text is None or consent is None else Agreed(consent, text)
    return number, CheckoutPayer(customer, agreed, language)


def _one(fields: Fields, name: str) -> str:
    return (fields.get(name) or [""])[0]
