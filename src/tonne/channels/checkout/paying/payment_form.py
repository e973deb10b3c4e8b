"""The form of a checkout's payment page: who buys, the name for the certificate, and the consent of a consumer.

A card number is never kept: not in the page that shows the form again, and not in the database.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime

from msgspec import Struct

from tonne.channels.checkout.create_checkout import NAME_FIELD, PUBLIC_FIELD, collected, read_customer_name
from tonne.channels.checkout.errors import ConsentMissing
from tonne.channels.checkout.paying import buyers
from tonne.channels.checkout.paying.buyers import AskedDetails, entered_buyer, read_buyer
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
from tonne.selling.orders.buyer import BuyerDetails
from tonne.selling.orders.model import Beneficiary

Fields = Mapping[str, Sequence[str]]
WAITING_FIELD, TAXED_FIELD = "accepts_waiting", "taxed_vat_id"
# In the order of the page.
FIELDS = ("card_number", *buyers.FIELDS, NAME_FIELD, CONSENT_FIELD)


class PaymentForm(Struct, frozen=True):
    """As the customer has filled it in."""

    name: str = ""
    is_name_public: bool = False
    # As it was entered, or as the client sent it.
    buyer: BuyerDetails = BuyerDetails()
    # The version of the text beside the box that was ticked.
    agreed_version: str = ""
    # Has been told that nothing is held while they pay, so that delivery may wait.
    accepts_waiting: bool = False
    # Has been told that this VAT ID is not confirmed, so that tax is charged.
    taxed_vat_id: str = ""


class AskedFields(Struct, frozen=True):
    """Which fields the page has: the test card, the name for the certificate, the buyer's details."""

    card: bool
    name: bool
    details: AskedDetails


def read_payment_form(fields: Fields, known: BuyerDetails | None) -> PaymentForm:
    """The button that opens the gateway's page again has no fields: the buyer is the `known` one."""
    buyer = known or BuyerDetails()
    if BUSINESS_FIELD in fields:
        buyer = entered_buyer(lambda name: _one(fields, name), is_business=bool(_one(fields, BUSINESS_FIELD)))
    return PaymentForm(
        name=_one(fields, NAME_FIELD)[:200],
        is_name_public=bool(_one(fields, PUBLIC_FIELD)),
        buyer=buyer,
        agreed_version=_one(fields, VERSION_FIELD) if _one(fields, CONSENT_FIELD) else "",
        accepts_waiting=bool(_one(fields, WAITING_FIELD)),
        taxed_vat_id=_one(fields, TAXED_FIELD)[:50],
    )


def form_of(consent: Consent | None, buyer: BuyerDetails | None) -> PaymentForm:
    """What the customer stated and agreed to when a payment of the same checkout failed, or what the client sent."""
    buyer = buyer or BuyerDetails(is_business=consent is not None and consent.buyer is BuyerKind.BUSINESS)
    return PaymentForm(buyer=buyer, agreed_version="" if consent is None else consent.version or "")


def consent_in(form: PaymentForm, text: WithdrawalText | None, now: datetime) -> Consent | None:
    """None if customers are not asked. Raises ConsentMissing, also if the text has changed since the page was shown."""
    if text is None:
        return None
    if form.buyer.is_business:
        return Consent(BuyerKind.BUSINESS, None, text.language, now)
    if form.agreed_version != text.version:
        raise ConsentMissing(field=CONSENT_FIELD)
    return Consent(BuyerKind.CONSUMER, text.version, text.language, now)


def read_payer(
    fields: Fields,
    form: PaymentForm,
    asked: AskedFields,
    text: WithdrawalText | None,
    faults: list[TonneError],
    *,
    now: datetime,
    language: str,
) -> tuple[str, CheckoutPayer]:
    """The number of the test card, and who pays. Adds all faults of the fields."""
    number = ""
    customer: Beneficiary | None = None
    agreed: Agreed | None = None
    with collected(faults):
        number = read_test_card(card_number_in(fields)) if asked.card else ""
    with collected(faults):
        customer = read_customer_name(form.name, is_public=form.is_name_public) if asked.name else None
    buyer = read_buyer(form.buyer, asked.details, faults)
    with collected(faults):
        consent = consent_in(form, text, now)
        agreed = None if text is None or consent is None else Agreed(consent, text)
    return number, CheckoutPayer(customer, agreed, language, buyer)


def _one(fields: Fields, name: str) -> str:
    return (fields.get(name) or [""])[0]
