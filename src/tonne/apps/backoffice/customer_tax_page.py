"""How a customer is taxed, and what its invoices state about it."""

from decimal import Decimal
from typing import Any

from tonne.apps.backoffice.customers_page import BASE, find_customer
from tonne.apps.dashboard.document_files import download
from tonne.apps.dashboard.einvoice_form import CHOICES, read_einvoice
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import Form, OperatorViewer
from tonne.money.invoices.documents.pdf import invoice_pdf
from tonne.money.invoices.documents.preview import preview_record
from tonne.money.invoices.store import find_billed_organisation
from tonne.platform.http.limits.turns import in_turn
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import TaxTreatment, format_rate, parse_decimal
from tonne.platform.values.context import replace
from tonne.platform.values.language import DEFAULT_LANGUAGE
from tonne.platform.web.render import see_other
from tonne.platform.web.visitor import DEFAULT, country_names
from tonne.selling.accounts.tax.tax_profile import TaxProfile, changed_profile, find_tax_profile, set_tax_profile

TEXTS = ("country", "tax_id", "street", "postcode", "city", "buyer_reference", "legal_note", "einvoice", "endpoint")
TREATMENTS = [
    ("", "The service's default"),
    (TaxTreatment.NONE, "None: tax is not mentioned"),
    (TaxTreatment.STANDARD, "Standard: tax is added"),
    (TaxTreatment.REVERSE_CHARGE, "Reverse charge: the buyer owes the tax"),
    (TaxTreatment.EXEMPT, "Exempt"),
    (TaxTreatment.OUTSIDE_SCOPE, "Outside the scope of the tax"),
]


class CustomerTaxPage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={f"{BASE}/tax": self.show},
            forms={f"{BASE}/tax": self.save, f"{BASE}/tax/preview": self.preview},
        )

    async def show(self, viewer: OperatorViewer) -> Response:
        profile = await self.database.run(find_tax_profile, viewer.request.path("organisation_id"))
        entered = {name: getattr(profile, name) or "" for name in TEXTS}
        entered |= {
            "treatment": profile.treatment or "",
            "rate": "" if profile.rate is None else f"{(profile.rate * 100).normalize():f}",
        }
        return await self._page(viewer, Form({name: [value] for name, value in entered.items()}))

    async def save(self, viewer: OperatorViewer, form: Form) -> Response:
        customer = await self.database.run(find_customer, viewer.request)
        changes = _read_changes(form, await self.database.run(find_tax_profile, customer.id))
        if not form.faults:
            async with self.saving(form) as tx:
                await set_tax_profile(tx, customer.id, changes, by=viewer.actor.at(self.clock()))
        if form.faults:
            return await self._page(viewer, form)
        return see_other(f"{viewer.base}/customers/{customer.id}/tax?done=tax_profile")

    async def preview(self, viewer: OperatorViewer, form: Form) -> Response:
        """The next invoice as the form would have it. Nothing is saved."""
        customer = await self.database.run(find_customer, viewer.request)
        organisation = await self.database.run(find_billed_organisation, customer.id)
        changes = _read_changes(form, organisation.tax)
        if not form.faults:
            with form.catch():
                organisation = replace(organisation, tax=changed_profile(organisation.tax, changes))
        if form.faults:
            return await self._page(viewer, form)
        record = preview_record(organisation, self.settings, self.today(), language=DEFAULT_LANGUAGE)
        return download(await in_turn(invoice_pdf, record), "preview.pdf")

    async def _page(self, viewer: OperatorViewer, form: Form) -> Response:
        customer = await self.database.run(find_customer, viewer.request)
        seller = self.settings.seller_tax
        default = seller.treatment.replace("_", " ")
        if seller.treatment is TaxTreatment.STANDARD:
            default += f", {format_rate(seller.rate)} %"
        return self.layout.page(
            viewer,
            "operator_customer_tax.html",
            form,
            customer=customer,
            entered=form,
            default=default,
            treatments=TREATMENTS,
            countries=[("", "Not known"), *country_names(DEFAULT)],
            formats=CHOICES,
        )


def _read_changes(form: Form, profile: TaxProfile) -> dict[str, Any]:
    changes: dict[str, Any] = {name: form.value(name) or None for name in TEXTS}
    read_einvoice(form, profile, changes)
    treatment = form.value("treatment")
    if treatment not in {value for value, _ in TREATMENTS}:
        form.fail("treatment", "Choose a treatment.")
    else:
        changes["treatment"] = TaxTreatment(treatment) if treatment else None
    rate = form.value("rate").removesuffix("%").strip().replace(",", ".")
    # Only the standard treatment has a rate.
    if treatment == TaxTreatment.STANDARD:
        percent = parse_decimal(rate)
        if percent is None:
            form.fail("rate", "Enter a number of per cent, such as 19 or 8.1.")
        changes["rate"] = None if percent is None else Decimal(percent) / 100
    return changes
