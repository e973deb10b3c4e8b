"""Buy: amount and mix, then a quote to check, then the order. The price that was shown is the price of the order."""

import hashlib

import msgspec

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import Form, MemberViewer
from tonne.apps.workspace.accounts_of_viewer import list_choices, require_account, scope_of
from tonne.apps.workspace.mix import default_shares, mix_rows, read_mix, typed_shares
from tonne.apps.workspace.payment_ways import PaymentWay, payment_ways
from tonne.money.cards.gateways.metered_gateway import takes_cards
from tonne.money.cards.stored_cards.stored_card_store import find_card
from tonne.money.invoices.documents.held_back import missing_details
from tonne.platform.db.idempotency import Idempotency
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import DECIMALS, MAX_GRAMS, MassUnit, parse_typed, scaled, to_grams
from tonne.platform.values.context import Actor, Mode, is_id, new_id
from tonne.platform.values.errors import TonneError
from tonne.platform.web.render import see_other
from tonne.selling.accounts.directory import AccountDirectory, ListedAccount
from tonne.selling.accounts.errors import NameInvalid
from tonne.selling.accounts.model import Account, PaymentMethod, Terms
from tonne.selling.accounts.organisations.change_organisation import check_name
from tonne.selling.accounts.tax.tax_profile import find_tax_profile
from tonne.selling.catalogue.errors import BelowMinimumOrder, ChargeTooSmall, QuantityInvalid, ValueInvalid
from tonne.selling.catalogue.model import Catalogue
from tonne.selling.catalogue.prices.price import PriceRequest
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.orders.errors import OfferChanged
from tonne.selling.orders.model import Beneficiary, BeneficiaryKind
from tonne.selling.orders.placing.place_order import OrderRequest
from tonne.selling.orders.placing.place_orders import PlaceOrders
from tonne.selling.orders.placing.quote_order import OrderQuote, quote_order
from tonne.selling.users.model import Right

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


_AMOUNT_ERRORS = (QuantityInvalid, ValueInvalid, BelowMinimumOrder, ChargeTooSmall)
_CHANGED = "The price has changed since you opened this page. Nothing was ordered. Check the new price below."
_OTHER_ORDER = (
    "You have already placed an order with this form, and changed the form since. If you want this order as well, "
    "place it below."
)


class _Buyer(msgspec.Struct, frozen=True):
    """The account that buys, and what prices and payment depend on."""

    account: Account
    terms: Terms
    catalogue: Catalogue
    ways: tuple[PaymentWay, ...]
    # Its invoice would wait for the address of the organisation.
    lacks_address: bool


class _Placed(msgspec.Struct):
    id: str


class BuyPage(DashboardPage, frozen=True):
    catalogues: Catalogues
    directory: AccountDirectory
    place_orders: PlaceOrders

    def section(self) -> OrganisationSection:
        return OrganisationSection(
            pages={"/buy": (self.show, Right.MONEY)},
            forms={
                "/buy": (self.edit, Right.MONEY),
                "/buy/quote": (self.quote, Right.MONEY),
                "/buy/order": (self.order, Right.MONEY),
            },
        )

    async def show(self, viewer: MemberViewer) -> Response:
        account_id = viewer.request.query("account")[0] or ""
        choices = await self.database.run(list_choices, viewer)
        if not account_id and not choices:
            return self.layout.page(viewer, "buy_nothing.html")
        buyer = await self._buyer(viewer, account_id or choices[0].id)
        if buyer.lacks_address:
            return see_other(f"{viewer.base}/tax?then=buy")
        form = Form(
            {
                "unit": ["t"],
                "beneficiary": [buyer.account.beneficiary],
                "payment": [_first_way(buyer)],
                "key": [new_id("auto")],
            }
        )
        shares = default_shares(buyer.terms, buyer.catalogue)
        return self._form_page(viewer, buyer, form, choices=choices, shares=shares)

    async def edit(self, viewer: MemberViewer, form: Form) -> Response:
        """Back from the quote, with everything that was entered."""
        return await self._back(viewer, await self._buyer(viewer, form.value("account")), form)

    async def quote(self, viewer: MemberViewer, form: Form) -> Response:
        buyer = await self._buyer(viewer, form.value("account"))
        purchase = read_purchase(form, buyer.account, buyer.catalogue, buyer.ways)
        if purchase is None:
            return await self._back(viewer, buyer, form)
        return await self._review(viewer, buyer, form, purchase)

    async def order(self, viewer: MemberViewer, form: Form) -> Response:
        """A form that is sent twice places one order."""
        buyer = await self._buyer(viewer, form.value("account"))
        if buyer.lacks_address:
            return see_other(f"{viewer.base}/tax?then=buy")
        purchase = read_purchase(form, buyer.account, buyer.catalogue, buyer.ways)
        if purchase is None:
            return await self._back(viewer, buyer, form)
        key, shown = form.value("key"), _read_offer(form.value("offer"))
        idempotency = Idempotency(key if is_id("auto", key) else new_id("auto"), purchase.digest)
        try:
            document, original = await self.place_orders.place(
                buyer.account.scope,
                idempotency,
                lambda _: purchase.order_request(idempotency, shown, viewer.actor),
            )
        except OfferChanged:
            form.fail("", _CHANGED)
            return await self._review(viewer, buyer, form, purchase)
        except TonneError as error:
            _fail(form, error)
            return await self._back(viewer, buyer, form)
        order_id = msgspec.json.decode(document, type=_Placed).id
        if original is not None and original != idempotency.digest:
            form.fail("", _OTHER_ORDER)
            return await self._review(viewer, buyer, form, purchase, earlier_order=order_id)
        return see_other(f"{viewer.base}/orders/{order_id}?done=ordered")

    async def _buyer(self, viewer: MemberViewer, account_id: str) -> _Buyer:
        async with self.database.connection() as connection:
            account = await require_account(connection, viewer, account_id)
            card = await find_card(connection, account.scope)
            profile = await find_tax_profile(connection, viewer.organisation_id)
        terms = await self.directory.terms_of(scope_of(viewer, account_id))
        return _Buyer(
            account,
            terms,
            await self.catalogues.current(viewer.mode),
            payment_ways(account, card, takes_cards=takes_cards(self.settings, viewer.mode)),
            lacks_address=viewer.mode is Mode.LIVE and bool(missing_details(terms.tax.treatment, profile)),
        )

    async def _review(
        self,
        viewer: MemberViewer,
        buyer: _Buyer,
        form: Form,
        purchase: Purchase,
        *,
        earlier_order: str = "",
    ) -> Response:
        """The quote. `earlier_order` was placed with the key of this form, so a new key is needed."""
        try:
            quote = quote_order(purchase.requested, buyer.terms.paid_by(purchase.payment_method), buyer.catalogue)
        except TonneError as error:
            _fail(form, error)
            return await self._back(viewer, buyer, form)
        key = form.value("key")
        carried = [(name, form.raw(name)) for name in form.names() if name not in {"form_token", "key", "offer"}]
        return self.layout.page(
            viewer,
            "buy_review.html",
            form,
            account=buyer.account,
            way=next(way for way in buyer.ways if way.method is purchase.payment_method),
            purchase=purchase,
            quote=quote,
            mechanisms={row.bundle.id: row.mechanism for row in mix_rows(buyer.catalogue, buyer.terms, {})},
            is_short=_is_short(quote),
            carried=carried,
            key=new_id("auto") if earlier_order or not is_id("auto", key) else key,
            earlier_order=earlier_order,
        )

    async def _back(self, viewer: MemberViewer, buyer: _Buyer, form: Form) -> Response:
        choices = await self.database.run(list_choices, viewer)
        shares = typed_shares(form, buyer.catalogue)
        return self._form_page(viewer, buyer, form, choices=choices, shares=shares)

    def _form_page(
        self,
        viewer: MemberViewer,
        buyer: _Buyer,
        form: Form,
        *,
        choices: list[ListedAccount],
        shares: dict[str, str],
    ) -> Response:
        return self.layout.page(
            viewer,
            "buy.html",
            form,
            account=buyer.account,
            is_closed=not buyer.terms.takes_orders,
            choices=choices,
            rows=mix_rows(buyer.catalogue, buyer.terms, shares),
            ways=buyer.ways,
            entered=form,
        )


def _first_way(buyer: _Buyer) -> str:
    """The account's own, unless it cannot be used."""
    usable = [way.method for way in buyer.ways if not way.refusal and not way.needs_card]
    own = buyer.account.payment_method
    return own if own in usable or not usable else usable[0]


def _read_offer(text: str) -> bytes:
    """Text that no page of ours contains is no offer: the quote is then shown again."""
    try:
        return bytes.fromhex(text)
    except ValueError:
        return b""


def _is_short(quote: OrderQuote) -> bool:
    return any(line.insufficient_available_quantity for line in quote.priced.lines)


def _fail(form: Form, error: TonneError) -> None:
    for fault in error.faults:
        form.fail("amount" if isinstance(error, _AMOUNT_ERRORS) else "", fault.message)
