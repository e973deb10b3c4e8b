"""Endpoint for the tax profile of the organisation that an API key belongs to."""

from fractions import Fraction
from typing import Annotated

import msgspec
from msgspec import Meta

from tonne.platform.db.database import Database
from tonne.platform.http.route import Request, Response, Route, RouteMaker, json_response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.amounts import TaxTerms, TaxTreatment, format_rate
from tonne.platform.values.context import same_named
from tonne.platform.values.einvoice import EInvoiceFormat
from tonne.selling.accounts.errors import TaxProfileNotAvailable
from tonne.selling.accounts.keys import store as key_store
from tonne.selling.accounts.model import AccountKind
from tonne.selling.accounts.tax.tax_profile import TaxProfile, find_tax_profile


class TaxProfileOut(msgspec.Struct):
    """How orders of the organisation are taxed, and what its invoices state. Set by the operator of the service."""

    treatment: Annotated[
        TaxTreatment,
        Meta(
            description="`none`: tax is not mentioned. `standard`: tax is added to `total_cost`. `reverse_charge`, "
            "`exempt` and `outside_scope`: no tax is added, and invoices say why.",
            examples=["standard"],
        ),
    ]
    rate: Annotated[
        str | None, Meta(description="In per cent. Null unless the treatment is `standard`.", examples=["19"])
    ]
    is_default: Annotated[
        bool, Meta(description="Whether treatment and rate are the seller's default.", examples=[False])
    ]
    country: Annotated[str | None, Meta(description="ISO 3166 code, or null.", examples=["DE"])]
    tax_id: Annotated[str | None, Meta(description="VAT or tax number, or null.", examples=["DE136695976"])]
    legal_note: Annotated[str | None, Meta(description="Note on invoices, or null for the seller's.", examples=[None])]
    buyer_reference: Annotated[
        str | None, Meta(description="Reference that invoices state, or null.", examples=["PO 4711"])
    ]
    street: Annotated[str | None, Meta(description="Street and number, or null.", examples=["Hafenstraße 12"])]
    postcode: Annotated[str | None, Meta(description="Postcode, or null.", examples=["20457"])]
    city: Annotated[str | None, Meta(description="City, or null.", examples=["Hamburg"])]
    einvoice: Annotated[
        EInvoiceFormat | None, Meta(description="Electronic invoice beside the PDF, or null.", examples=["xrechnung"])
    ]
    endpoint: Annotated[str | None, Meta(description="Electronic address, or null.", examples=["9930:DE136695976"])]


class TaxEndpoints:
    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._seller_tax = settings.seller_tax

    async def read_tax_profile(self, request: Request) -> Response:
        """Read the organisation's tax profile.

        Returns how new orders of the organisation are taxed, and what its invoices state about it. It applies to both
        modes. Keys of client accounts cannot read it.
        """
        scope = request.scope
        async with self._database.connection() as connection:
            kind = await key_store.find_key_kind(connection, scope.organisation_id, request.actor.name)
            if kind is not AccountKind.ACCOUNT:
                raise TaxProfileNotAvailable
            profile = await find_tax_profile(connection, scope.organisation_id)
        return json_response(_profile_out(profile, profile.terms(self._seller_tax)))


def tax_routes(endpoints: TaxEndpoints) -> list[Route]:
    return [
        RouteMaker("Account")(
            "GET /v1/tax-profile",
            endpoints.read_tax_profile,
            TaxProfileOut,
            TaxProfileNotAvailable,
            operation_id="getTaxProfile",
        )
    ]


def _profile_out(profile: TaxProfile, terms: TaxTerms) -> TaxProfileOut:
    return same_named(
        TaxProfileOut,
        profile,
        treatment=terms.treatment,
        rate=format_rate(Fraction(terms.rate)) if terms.treatment is TaxTreatment.STANDARD else None,
        is_default=profile.treatment is None,
    )
