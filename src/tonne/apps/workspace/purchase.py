"""What a member wants to buy, as the form sends it."""

import hashlib

import msgspec

from tonne.apps.dashboard.form import Form
from tonne.apps.workspace.mix import read_mix
from tonne.apps.workspace.payment_ways import PaymentWay
from tonne.platform.db.idempotency import Idempotency
from tonne.platform.values.amounts import DECIMALS, MAX_GRAMS, MassUnit, parse_typed, scaled, to_grams
from tonne.platform.values.context import Actor
from tonne.selling.accounts.errors import NameInvalid
from tonne.selling.accounts.model import Account, PaymentMethod
from tonne.selling.accounts.organisations.open_organisation import check_name
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.price import PriceRequest
from tonne.selling.orders.beneficiary import Beneficiary
from tonne.selling.orders.model import BeneficiaryKind
from tonne.selling.orders.placing.place_order import OrderRequest

# The unit of an amount that is a budget in the account's currency.
MONEY = "money"
MAX_PO_NUMBER = 100


class Purchase(msgspec.Struct, frozen=True):
    requested: PriceRequest
    payment_method: PaymentMethod
    # None: the account's.
    beneficiary: Beneficiary | None
    po_number: str

    @property
    def digest(self) -> bytes:
        """Tells a form that was sent twice from one that was changed in between. The price is not part of it."""
        return hashlib.sha256(b"purchase " + msgspec.json.encode(msgspec.to_builtins(self), order="sorted")).digest()

    def order_request(self, idempotency: Idempotency, shown_offer: bytes, user: Actor) -> OrderRequest:
        return OrderRequest(
            requested=self.requested,
            idempotency=idempotency,
            reference=self.po_number or None,
            beneficiary=self.beneficiary,
            payment_method=self.payment_method,
            user=user,
            shown_offer=shown_offer,
        )


def read_purchase(form: Form, account: Account, catalogue: Catalogue, ways: tuple[PaymentWay, ...]) -> Purchase | None:
    """None if the form has faults."""
    mass_grams, value_minor = _read_amount(form, account.currency)
    choices = read_mix(form, catalogue)
    beneficiary = _read_beneficiary(form, account)
    method, po_number = _read_payment(form, ways)
    if form.faults or method is None:
        return None
    requested = PriceRequest(mass_grams=mass_grams, value_minor=value_minor, choices=choices)
    return Purchase(requested, method, beneficiary, po_number)


def _read_amount(form: Form, currency: str) -> tuple[int | None, int | None]:
    """Grams or minor units."""
    number, unit = parse_typed(form.value("amount")), form.value("unit")
    if number is None:
        form.fail("amount", "Enter a number, such as 2.5. Leave out thousands separators.")
    elif unit == MONEY:
        value_minor = scaled(number, DECIMALS[currency])
        if value_minor is not None and value_minor >= 1:
            return None, value_minor
        decimals = DECIMALS[currency]
        form.fail("amount", f"Enter a budget above zero, with {f'at most {decimals}' if decimals else 'no'} decimals.")
    elif unit in {MassUnit.T, MassUnit.KG}:
        mass_grams = to_grams(number, MassUnit(unit))
        if 1 <= mass_grams <= MAX_GRAMS:
            return mass_grams, None
        form.fail("amount", "Enter at least 1 gram and at most 100,000,000 tonnes.")
    else:
        form.fail("amount", "Choose tonnes, kilograms or a budget.")
    return None, None


def _read_beneficiary(form: Form, account: Account) -> Beneficiary | None:
    kind = BeneficiaryKind.PERSON if form.is_checked("is_person") else BeneficiaryKind.ORGANISATION
    try:
        name = check_name(form.value("beneficiary"))
    except NameInvalid:
        form.fail("beneficiary", "Enter the name on the certificate, with at most 200 characters.")
        return None
    is_default = name == account.beneficiary and kind is BeneficiaryKind.ORGANISATION
    return None if is_default else Beneficiary(name, kind)


def _read_payment(form: Form, ways: tuple[PaymentWay, ...]) -> tuple[PaymentMethod | None, str]:
    po_number = form.value("po_number")
    if len(po_number) > MAX_PO_NUMBER or not po_number.isprintable():
        form.fail("po_number", f"Use at most {MAX_PO_NUMBER} characters on one line.")
    way = next((way for way in ways if way.method == form.value("payment")), None)
    if way is None:
        form.fail("payment", "Choose how to pay.")
        return None, po_number
    if way.refusal:
        form.fail("payment", way.refusal)
    elif way.needs_card:
        form.fail("payment", "No card is stored yet. Add one, then continue, or choose the invoice.")
    elif po_number and way.method is PaymentMethod.CARD:
        form.fail("po_number", "Purchase orders are paid by invoice. Choose the invoice, or remove the number.")
    return way.method, po_number
