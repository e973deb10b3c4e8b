"""The price of a locked quote, with everything that an order with it must agree with."""

from collections.abc import Sequence
from decimal import Decimal
from fractions import Fraction
from typing import Any

import msgspec

from tonne.selling.accounts.model import PaymentMethod, Terms
from tonne.selling.catalogue.prices.price import PriceRequest
from tonne.selling.catalogue.prices.pricing import Priced
from tonne.selling.catalogue.prices.quantity_unit import QuantityUnit
from tonne.selling.orders.model import OrderTax


class LockedPrice(msgspec.Struct, frozen=True, kw_only=True):
    """What was requested, and what it costs. Stored as JSON."""

    mass_grams: int | None
    value_minor: int | None
    selection: list[dict[str, Any]] | None
    unit: QuantityUnit | None
    estimate_id: str | None
    payment_method: PaymentMethod
    is_billed_together: bool
    priced: Priced
    tax: OrderTax

    @classmethod
    def of(
        cls, requested: PriceRequest, priced: Priced, tax: OrderTax, terms: Terms, *, estimate_id: str | None
    ) -> "LockedPrice":
        return cls(
            mass_grams=requested.mass_grams,
            value_minor=requested.value_minor,
            selection=requested.stored_selection,
            unit=requested.unit,
            estimate_id=estimate_id,
            payment_method=terms.payment_method,
            is_billed_together=terms.is_billed_together,
            priced=priced,
            tax=tax,
        )

    @property
    def requested(self) -> PriceRequest:
        request = PriceRequest(mass_grams=self.mass_grams, value_minor=self.value_minor, unit=self.unit)
        return request.with_stored_selection(self.selection)

    def is_payable_under(self, terms: Terms) -> bool:
        """The amounts were made for a currency and a way of paying: another one may round them differently."""
        return (self.priced.currency, self.payment_method, self.is_billed_together) == (
            terms.currency,
            terms.payment_method,
            terms.is_billed_together,
        )

    def difference(self, requested: PriceRequest, estimate_id: str | None) -> str | None:
        """The field in which an order differs from the quote. Bundles and unit may be omitted in the order."""
        if estimate_id != self.estimate_id:
            return "estimate_id"
        if estimate_id is None and (requested.mass_grams, requested.value_minor) != (self.mass_grams, self.value_minor):
            return "mass" if requested.value_minor is None else "value"
        sent = requested.stored_selection
        if sent is not None and (self.selection is None or _comparable(sent) != _comparable(self.selection)):
            return "bundle_masses" if requested.masses is not None else "bundle_selection"
        return "quantity_trunc" if requested.unit not in {None, self.unit} else None


def _comparable(selection: Sequence[dict[str, Any]]) -> dict[str, tuple[object, object]]:
    """The same for `50` and `50.00` per cent, and for any order of the bundles."""
    return {
        each["bundle_id"]: (
            None if each.get("percentage") is None else _number(each["percentage"]),
            each.get("mass_grams"),
        )
        for each in selection
    }


def _number(text: str) -> object:
    try:
        return Decimal(text)
    except ArithmeticError:
        return text


def encode_locked(locked: LockedPrice) -> bytes:
    return msgspec.json.encode(locked, enc_hook=str)


_DECODER = msgspec.json.Decoder(LockedPrice, dec_hook=lambda _, text: Fraction(text))


def decode_locked(stored: bytes) -> LockedPrice:
    return _DECODER.decode(stored)
