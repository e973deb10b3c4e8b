"""What offsetting a calculated estimate costs now."""

import msgspec

from tonne.platform.http.errors import documented
from tonne.platform.http.json_body import Document, decode_json, read
from tonne.platform.values.context import Scope
from tonne.platform.values.errors import TonneError
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.catalogue.errors import QuantityInvalid
from tonne.selling.catalogue.prices.price import PriceRequest, price, price_for_display
from tonne.selling.catalogue.prices.quantity_unit import cut_quantity
from tonne.selling.catalogue.schemas import quote_out
from tonne.selling.catalogue.selection import resolve
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.selling.estimates.calculated import CalculatedEstimate
from tonne.selling.estimates.calculated_schemas import CommonIn, QuoteOptionsIn

_OPTIONS = ("bundle_selection", "quantity_trunc")


class QuoteEstimate:
    def __init__(self, catalogues: Catalogues, directory: AccountDirectory) -> None:
        self._catalogues = catalogues
        self._directory = directory

    async def check(self, scope: Scope, body: CommonIn) -> None:
        """Raises an error for a selection that is not valid now."""
        if body.bundle_selection is not None:
            resolve(body.bundle_selection, await self._catalogues.current(scope.mode))

    async def quote(self, estimate: CalculatedEstimate) -> msgspec.Raw:
        """A quote, or `{error, errors}` while there is no price."""
        scope = estimate.scope
        terms, catalogue = await self._directory.terms_of(scope), await self._catalogues.current(scope.mode)
        options = _options(estimate)
        grams = cut_quantity(estimate.mass_grams, options.quantity_trunc)
        request = PriceRequest(mass_grams=grams, choices=options.bundle_selection)
        try:
            if grams == 0:
                raise QuantityInvalid(
                    f"The estimate is less than one {options.quantity_trunc}. Use a smaller unit for quantity_trunc."
                )
            priced = price_for_display(request, terms, catalogue)
            if priced is None:
                # It says why there is no price.
                priced = price(request, terms, catalogue)
        except TonneError as error:
            faults = documented(error.faults)
            return msgspec.Raw(msgspec.json.encode({"error": faults[0], "errors": faults}))
        return msgspec.Raw(msgspec.json.encode(quote_out(priced, request, terms, estimate_id=estimate.id)))


def _options(estimate: CalculatedEstimate) -> QuoteOptionsIn:
    if not any(f'"{name}"' in estimate.request for name in _OPTIONS):
        return QuoteOptionsIn()
    raw = estimate.request.encode()
    members = decode_json(raw).members
    return read(Document(raw, {name: members[name] for name in _OPTIONS if name in members}), QuoteOptionsIn)
