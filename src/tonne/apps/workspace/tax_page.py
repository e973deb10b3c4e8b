"""How the organisation is taxed, and what its invoices state about it: its members enter address and reference."""

from typing import Any

from tonne.apps.dashboard.document_files import download
from tonne.apps.dashboard.einvoice_form import CHOICES, read_einvoice
from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import Form, MemberViewer
from tonne.money.invoices.documents.einvoice_fields import missing_of_seller
from tonne.money.invoices.documents.held_back import missing_details
from tonne.money.invoices.documents.parties import seller_of
from tonne.money.invoices.documents.pdf import invoice_pdf
from tonne.money.invoices.documents.preview import preview_record
from tonne.money.invoices.documents.tax_notes import tax_note
from tonne.money.invoices.store import find_billed_organisation
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import TaxTreatment, format_rate
from tonne.platform.values.context import replace
from tonne.platform.values.einvoice import is_leitweg_id
from tonne.platform.values.language import DEFAULT_LANGUAGE
from tonne.platform.web.render import see_other
from tonne.platform.web.visitor import DEFAULT, country_names
from tonne.selling.accounts.lookup import require_organisation
from tonne.selling.accounts.tax.tax_profile import TaxProfile, find_tax_profile, set_tax_profile
from tonne.selling.accounts.tax.vat_checks import find_vat_check
from tonne.selling.users.model import Right

PARTS = ("street", "postcode", "city", "country")
WISHES = ("buyer_reference", "einvoice", "endpoint")
_NAMES = {"street": "the street and number", "postcode": "the postcode", "city": "the city", "country": "the country"}
_TREATMENTS = {
    TaxTreatment.NONE: "Tax is not mentioned",
    TaxTreatment.STANDARD: "Tax is added",
    TaxTreatment.REVERSE_CHARGE: "Reverse charge: you owe the tax",
    TaxTreatment.EXEMPT: "Exempt from tax",
    TaxTreatment.OUTSIDE_SCOPE: "Outside the scope of the tax",
}


class TaxPage(DashboardPage, frozen=True):
    def section(self) -> OrganisationSection:
        return OrganisationSection(
            pages={"/tax": (self.show, Right.MONEY), "/tax/preview.pdf": (self.preview, Right.MONEY)},
            forms={"/tax": (self.save, Right.MONEY)},
        )

    async def show(self, viewer: MemberViewer) -> Response:
        profile = await self.database.run(find_tax_profile, viewer.organisation_id)
        then = viewer.request.query("then")[0] or ""
        names = (*PARTS, *WISHES)
        return await self._page(viewer, profile, Form({name: [getattr(profile, name) or ""] for name in names}), then)

    async def save(self, viewer: MemberViewer, form: Form) -> Response:
        profile = await self.database.run(find_tax_profile, viewer.organisation_id)
        names = [name for name in PARTS if name != "country" or not is_country_fixed(profile)]
        # The page before a purchase asks for the address only.
        names += [name for name in WISHES if name in form.names()]
        changes: dict[str, Any] = {name: form.value(name) or None for name in names}
        read_einvoice(form, profile, changes)
        treatment = profile.terms(self.settings.seller_tax).treatment
        for part in missing_details(treatment, replace(profile, **changes)):
            form.fail(part, f"Enter {_NAMES[part]}.")
        if not form.faults:
            async with self.saving(form) as tx:
                await set_tax_profile(tx, viewer.organisation_id, changes, by=viewer.actor.at(self.clock()))
        if form.faults:
            return await self._page(viewer, profile, form, form.value("then"))
        return see_other(f"{viewer.base}/buy" if form.value("then") == "buy" else f"{viewer.base}/tax?done=address")

    async def preview(self, viewer: MemberViewer) -> Response:
        """How the next invoice would look."""
        organisation = await self.database.run(find_billed_organisation, viewer.organisation_id)
        record = preview_record(organisation, self.settings, self.today(), language=DEFAULT_LANGUAGE)
        return download(await in_turn(invoice_pdf, record), "preview.pdf")

    async def _page(self, viewer: MemberViewer, profile: TaxProfile, form: Form, then: str) -> Response:
        async with self.database.connection() as connection:
            details = await require_organisation(connection, viewer.organisation_id)
            check = await find_vat_check(connection, profile.tax_id)
        terms = profile.terms(self.settings.seller_tax)
        return self.layout.page(
            viewer,
            "tax.html",
            form,
            entered=form,
            profile=profile,
            organisation=details.organisation.name,
            is_country_fixed=is_country_fixed(profile),
            countries=[("", "Choose a country"), *country_names(DEFAULT)],
            country=DEFAULT.territories.get(profile.country or "", profile.country),
            then="buy" if then == "buy" else "",
            treatment=_TREATMENTS[terms.treatment],
            rate=format_rate(terms.rate) if terms.treatment is TaxTreatment.STANDARD else None,
            note=tax_note(terms.treatment, profile, self.settings, DEFAULT_LANGUAGE),
            check=check,
            formats=CHOICES,
            format=dict(CHOICES).get(profile.einvoice or ""),
            seller_endpoint=self.settings.seller_endpoint,
            is_seller_ready=profile.einvoice is None
            or not missing_of_seller(seller_of(self.settings), profile.einvoice),
            is_leitweg_id=is_leitweg_id(profile.buyer_reference or "") and profile.einvoice is None,
        )


def is_country_fixed(profile: TaxProfile) -> bool:
    """The operator chose the treatment for a buyer in this country, and the VAT number belongs to it."""
    return profile.country is not None and (profile.treatment is not None or profile.tax_id is not None)
