"""The buyer's details: as a customer enters them or a client sends them, and what must be known before the payment."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from msgspec import Struct

from tonne.channels.checkout.errors import BuyerIncomplete, BuyerInvalid
from tonne.money.invoices.documents.held_back import missing_details
from tonne.platform.settings.currency_limits import limit_minor
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTreatment
from tonne.platform.values.context import Mode, replace
from tonne.platform.values.countries import alpha_2
from tonne.platform.values.errors import TonneError
from tonne.platform.values.language import N_
from tonne.platform.values.tax_ids import parse_tax_id
from tonne.selling.orders.buyer import TEXTS, BuyerDetails, taxed_abroad

# Of the fields of the payment form, and of the parameters of signed links.
PREFIX = "buyer_"
FIELDS = tuple(f"{PREFIX}{name}" for name in (*TEXTS[:-2], "country", *TEXTS[-2:]))
MAX_LENGTHS = {"name": 200, "company": 200, "street": 200, "postcode": 20, "city": 100, "vat_id": 50, "reference": 100}
_OF_A_BUSINESS = ("company", "vat_id", "reference")
_MISSING = {
    "name": N_("Enter your name."),
    "company": N_("Enter the name of the company."),
    "street": N_("Enter street and number."),
    "postcode": N_("Enter the postcode."),
    "city": N_("Enter the city."),
    "country": N_("Choose the country."),
}


class AskedDetails(Struct, frozen=True):
    """Whether a private person is asked for name and address, and whether nobody can pay without what is asked for.

    With `of_country`, a person is asked for the country at least.
    """

    of_person: bool = False
    is_demanded: bool = False
    of_country: bool = False


def details_to_ask(
    due_minor: int,
    currency: str,
    treatment: TaxTreatment,
    mode: Mode,
    settings: Settings,
    *,
    buyer: BuyerDetails | None = None,
) -> AskedDetails:
    """A person is asked if the invoice is not a simplified one. Without tax, and in test mode, nothing is demanded.

    The tax of another country is never on a simplified invoice.
    """
    if treatment is TaxTreatment.NONE:
        return AskedDetails()
    limit = limit_minor(settings.simplified_invoice_up_to, currency) or 0
    is_full = due_minor > limit or taxed_abroad(buyer, settings) is not None
    return AskedDetails(is_full, mode is Mode.LIVE, settings.tax_by_country != "off")


def entered_buyer(get: Callable[[str], str | None], *, is_business: bool) -> BuyerDetails:
    """From a form or a query, by the names of `FIELDS`. Nothing is checked yet."""
    found = {name.removeprefix(PREFIX): (get(name) or "")[:1000] or None for name in FIELDS}
    return BuyerDetails(is_business=is_business, **found)


def signed_buyer(values: Mapping[str, list[str]]) -> BuyerDetails | None:
    """What a signed link says of the buyer. What is not valid is left out: the payment page asks for it again."""
    found = {name: values[name][0] for name in FIELDS if name in values}
    if not found:
        return None
    entered = entered_buyer(found.get, is_business=f"{PREFIX}company" in found)
    return check_buyer(entered, [])


def read_buyer(entered: BuyerDetails, asked: AskedDetails, faults: list[TonneError]) -> BuyerDetails | None:
    """What the customer stated of what they were asked for. Adds all faults."""
    only_country = not entered.is_business and not asked.of_person
    if only_country and not asked.of_country:
        return None
    of_others = TEXTS if only_country else _OF_A_BUSINESS
    unasked: dict[str, Any] = dict.fromkeys(("name",) if entered.is_business else of_others)
    own = list[TonneError]()
    buyer = check_buyer(replace(entered, **unasked), own)
    if asked.is_demanded:
        named = "company" if buyer.is_business else "name"
        missing = [*([] if getattr(entered, named) else [named]), *missing_details(TaxTreatment.STANDARD, buyer)]
        missing = [part for part in missing if part == "country" or not only_country]
        faulty = {fault.field for error in own for fault in error.faults}
        own += [BuyerIncomplete(_MISSING[part], field=PREFIX + part) for part in missing if PREFIX + part not in faulty]
    faults += own
    return buyer if buyer.is_business or buyer.texts or buyer.country else None


def check_buyer(entered: BuyerDetails, faults: list[TonneError]) -> BuyerDetails:
    """In its canonical spelling and without what is not valid, whose faults are added."""
    checked: dict[str, str | None] = {}
    for name in TEXTS:
        text = (getattr(entered, name) or "").strip()
        if len(text) > MAX_LENGTHS[name] or not text.isprintable():
            faults.append(BuyerInvalid(field=PREFIX + name, most=MAX_LENGTHS[name]))
            text = ""
        checked[name] = text or None
    country = (entered.country or "").strip()
    checked["country"] = alpha_2(country)
    if country and checked["country"] is None:
        faults.append(BuyerInvalid(_MISSING["country"], field=f"{PREFIX}country"))
    vat_id, checked["vat_id"] = checked["vat_id"], None
    if vat_id is not None:
        with suppress(ValueError):
            checked["vat_id"] = parse_tax_id(vat_id, checked["country"])
        if checked["vat_id"] is None:
            message = N_("This is not a valid VAT ID of the country. Check both for typing errors.")
            faults.append(BuyerInvalid(message, field=f"{PREFIX}vat_id"))
    return BuyerDetails(is_business=entered.is_business, **checked)
