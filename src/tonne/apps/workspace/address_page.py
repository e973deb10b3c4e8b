"""The address of the organisation, which its invoices state."""

from typing import Any

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import Form, MemberViewer
from tonne.money.invoices.documents.held_back import missing_details
from tonne.platform.http.route import Response
from tonne.platform.values.context import replace
from tonne.platform.web.render import see_other
from tonne.platform.web.visitor import DEFAULT, country_names
from tonne.selling.accounts.tax.tax_profile import TaxProfile, find_tax_profile, set_tax_profile
from tonne.selling.users.model import Right

PARTS = ("street", "postcode", "city", "country")
_NAMES = {"street": "the street and number", "postcode": "the postcode", "city": "the city", "country": "the country"}


class AddressPage(DashboardPage, frozen=True):
    def section(self) -> OrganisationSection:
        return OrganisationSection(
            pages={"/address": (self.show, Right.MONEY)}, forms={"/address": (self.save, Right.MONEY)}
        )

    async def show(self, viewer: MemberViewer) -> Response:
        profile = await self.database.run(find_tax_profile, viewer.organisation_id)
        then = viewer.request.query("then")[0] or ""
        return self._page(viewer, profile, Form({name: [getattr(profile, name) or ""] for name in PARTS}), then)

    async def save(self, viewer: MemberViewer, form: Form) -> Response:
        profile = await self.database.run(find_tax_profile, viewer.organisation_id)
        names = [name for name in PARTS if name != "country" or not is_country_fixed(profile)]
        changes: dict[str, Any] = {name: form.value(name) or None for name in names}
        treatment = profile.terms(self.settings.seller_tax).treatment
        for part in missing_details(treatment, replace(profile, **changes)):
            form.fail(part, f"Enter {_NAMES[part]}.")
        if not form.faults:
            async with self.saving(form) as tx:
                await set_tax_profile(tx, viewer.organisation_id, changes, by=viewer.actor.at(self.clock()))
        if form.faults:
            return self._page(viewer, profile, form, form.value("then"))
        return see_other(f"{viewer.base}/buy" if form.value("then") == "buy" else f"{viewer.base}/address?done=address")

    def _page(self, viewer: MemberViewer, profile: TaxProfile, form: Form, then: str) -> Response:
        return self.layout.page(
            viewer,
            "address.html",
            form,
            entered=form,
            profile=profile,
            is_country_fixed=is_country_fixed(profile),
            countries=[("", "Choose a country"), *country_names(DEFAULT)],
            then="buy" if then == "buy" else "",
        )


def is_country_fixed(profile: TaxProfile) -> bool:
    """The operator chose the treatment for a buyer in this country, and the VAT number belongs to it."""
    return profile.country is not None and (profile.treatment is not None or profile.tax_id is not None)
