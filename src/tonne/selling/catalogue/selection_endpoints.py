"""Endpoints of the default selection of bundles: what an order gets that names none."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct, structs

from tonne.platform.db.database import Database
from tonne.platform.http.errors import AccountClosed
from tonne.platform.http.json_body import read_items
from tonne.platform.http.route import Request, Response, Route, RouteMaker, json_response
from tonne.platform.values.amounts import apportion
from tonne.platform.values.context import Clock
from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.accounts.directory import AccountDirectory
from tonne.selling.catalogue.errors import BundleInvalid, PriceUnavailable, RatiosInvalid, RatiosInvalidFormat
from tonne.selling.catalogue.schemas import BundleId, DecimalText
from tonne.selling.catalogue.selection import (
    FIELD,
    HUNDREDTH,
    WHOLE,
    BundleChoiceIn,
    percent_text,
    percentages_of,
    weight_of,
)
from tonne.selling.catalogue.set_default_selection import set_account_default
from tonne.selling.catalogue.snapshot import Catalogues

MAX_BUNDLES = 100


class SelectedBundleOut(msgspec.Struct):
    bundle_id: BundleId
    percentage: Annotated[DecimalText, Meta(description="Share of the bundle. All sum to 100.", examples=["100"])]


class BundleSelectionEndpoints(Struct, frozen=True):
    database: Database
    catalogues: Catalogues
    directory: AccountDirectory
    clock: Clock

    async def read_selection(self, request: Request) -> Response:
        """Read the default selection of bundles.

        Returns the bundles of orders that name none: those of the account, or else of its organisation, or else of the
        catalogue. The array is empty if there is no default.
        """
        terms = await self.directory.terms_of(request.scope)
        catalogue = await self.catalogues.current(request.scope.mode)
        stored = terms.default_selection if terms.default_selection is not None else catalogue.default_selection
        return json_response(shown_selection(stored or []))

    async def replace_selection(self, request: Request) -> Response:
        """Replace the account's default selection of bundles.

        Percentages are optional. Bundles without one share equally what the others leave of 100. An empty array removes
        the account's own selection: the default of its organisation or of the catalogue then applies.
        """
        if (await self.directory.terms_of(request.scope)).is_closed:
            raise AccountClosed
        choices = with_percentages(read_items(request.json_array(), BundleChoiceIn, MAX_BUNDLES))
        async with self.database.transaction() as tx:
            try:
                await set_account_default(tx, request.scope, choices, by=request.actor.at(self.clock()))
            except (Invalid, RatiosInvalid) as error:
                raise Invalid([_in_array(fault) for fault in error.faults]) from error
        self.directory.forget_terms(request.scope)
        return await self.read_selection(request)

    def routes(self) -> list[Route]:
        route = RouteMaker("Catalogue")
        shown = list[SelectedBundleOut]
        errors = (BundleInvalid, RatiosInvalid, RatiosInvalidFormat, PriceUnavailable)
        return [
            route("GET /v1/bundle-selections", self.read_selection, shown, operation_id="getBundleSelection"),
            route(
                "PUT /v1/bundle-selections",
                self.replace_selection,
                shown,
                *errors,
                operation_id="replaceBundleSelection",
                body=list[BundleChoiceIn],
            ),
        ]


def _in_array(fault: Fault) -> Fault:
    """The body is the selection itself, not an object with it."""
    return structs.replace(fault, field=fault.field.removeprefix(FIELD) or None) if fault.field else fault


def with_percentages(choices: Sequence[BundleChoiceIn]) -> list[BundleChoiceIn]:
    """Bundles without a percentage share what the others leave. Without any percentage, all stay without one."""
    missing = [i for i, choice in enumerate(choices) if choice.percentage is None]
    if not missing or len(missing) == len(choices):
        return list(choices)
    given = [weight_of(choice.percentage) for choice in choices if choice.percentage is not None]
    invalid = [
        i for i, choice in enumerate(choices) if choice.percentage is not None and not weight_of(choice.percentage)
    ]
    if invalid:
        raise Invalid([fault for i in invalid for fault in RatiosInvalidFormat(field=f"[{i}].percentage").faults])
    rest = WHOLE - sum(each or 0 for each in given)
    if rest < len(missing):
        raise RatiosInvalid(
            f"The percentages sum to {percent_text(WHOLE - rest)}, so nothing is left for the bundles without one. "
            "Lower the percentages, or leave these bundles out."
        )
    step = HUNDREDTH if rest % HUNDREDTH == 0 and rest // HUNDREDTH >= len(missing) else 1
    shares = dict(zip(missing, apportion(rest // step, [1] * len(missing)), strict=True))
    return [
        BundleChoiceIn(choice.bundle_id, percent_text(shares[i] * step)) if i in shares else choice
        for i, choice in enumerate(choices)
    ]


def shown_selection(stored: Sequence[Mapping[str, Any]]) -> list[SelectedBundleOut]:
    """With percentages that sum to 100, also if the selection is split equally."""
    equal = percentages_of([1] * len(stored)) if stored else []
    return [
        SelectedBundleOut(each["bundle_id"], each.get("percentage") or share)
        for each, share in zip(stored, equal, strict=True)
    ]
