"""Settings, Books: what the books and the tax of documents are based on, and the imports that keep it up to date."""

from collections.abc import Awaitable, Callable
from typing import Any

from tonne.apps.backoffice.catalogue.staged_imports import MAX_UPLOAD_BYTES
from tonne.apps.backoffice.catalogue.uploads import read_upload
from tonne.apps.backoffice.money.confirmed_step import ConfirmedPage, Wording
from tonne.apps.dashboard.page import OperatorSection
from tonne.apps.dashboard.viewer import Form, OperatorViewer, existing
from tonne.channels.checkout.waiting import OLDEST_RATES
from tonne.money.accounting.books.chart import Office, find_chart, import_chart
from tonne.money.invoices.tax_documents import list_series
from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.columns import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.http.route import Response
from tonne.platform.values.context import By
from tonne.platform.web.render import see_other
from tonne.selling.accounts.tax.tax_rates import import_tax_rates, list_tax_rates, rates_as_of
from tonne.selling.catalogue.imports.ecb_rates import EcbFileInvalid, read_ecb_rates
from tonne.selling.catalogue.prices.reference_rates import (
    EURO,
    MAX_AGE,
    home_currency_of,
    list_newest_rates,
    save_reference_rates,
)
from tonne.selling.users.guarded_settings import approve_setting, list_guarded
from tonne.selling.users.names import name_actors

MOST_ERRORS = 5
ONE_OF_TWO = "Another person must approve it, too: who changes the configuration of the service is not known."
LIMITS = ("simplified_invoice_up_to", "bank_refund_minimum")
# What imports each file, by its field.
Import = Callable[[Connection, SheetFile, By], Awaitable[Any]]
COMMANDS = {"chart": "tonne books chart import", "rates": "tonne tax rates import", "ecb": "tonne rates import-ecb"}


class BooksPage(ConfirmedPage, frozen=True):
    def section(self) -> OperatorSection:
        files = {
            "/books/chart": self.chart,
            "/books/tax-rates": self.tax_rates,
            "/books/exchange-rates": self.ecb_rates,
        }
        return OperatorSection(
            pages={"/books": self.show},
            forms={**files, "/books/settings/{name}/approve": self.approve},
            uploads=dict.fromkeys(files, MAX_UPLOAD_BYTES + 64 * 1024),
        )

    async def approve(self, viewer: OperatorViewer, form: Form) -> Response:
        name, now = viewer.request.path("name"), self.clock()
        words = Wording(
            "Approve the change",
            lambda applies: "setting_approved" if applies else "first_approval",
            lambda applies: [f"The new value of {name} applies from now on." if applies else ONE_OF_TWO],
        )

        async def work(tx: Connection) -> bool:
            return existing(await approve_setting(tx, name, approver=viewer.approver(now), now=now))

        return await self.take_step(viewer, form, words, work, show_faults=self.show, back=f"{viewer.base}/books")

    async def chart(self, viewer: OperatorViewer, form: Form) -> Response:
        consultant = _number(form, "consultant", 9_999_999)
        client = _number(form, "client", 99_999)
        year_begins = _number(form, "year_begins", 12)
        office = Office(consultant, client, year_begins, home_currency_of(self.settings) or EURO)
        return await self._import(viewer, form, "chart", lambda tx, file, by: import_chart(tx, file, office, by=by))

    async def tax_rates(self, viewer: OperatorViewer, form: Form) -> Response:
        return await self._import(viewer, form, "rates", lambda tx, file, by: import_tax_rates(tx, file, by=by))

    async def ecb_rates(self, viewer: OperatorViewer, form: Form) -> Response:
        return await self._import(
            viewer, form, "ecb", lambda tx, file, by: save_reference_rates(tx, read_ecb_rates(file.content), by=by)
        )

    async def _import(self, viewer: OperatorViewer, form: Form, field: str, work: Import) -> Response:
        """All of the file or nothing."""
        file = read_upload(viewer.request, form, field, COMMANDS[field])
        if file is not None and not form.faults:
            try:
                async with self.saving(form) as tx:
                    await work(tx, file, viewer.actor.at(self.clock()))
            except SheetInvalid as error:
                form.fail(field, " ".join(str(each) for each in error.errors[:MOST_ERRORS]))
            except EcbFileInvalid as error:
                form.fail(field, f"This is no file of the European Central Bank: {error}.")
        if form.faults:
            return await self.show(viewer, form)
        return see_other(f"{viewer.base}/books?done={field}_imported")

    async def show(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        async with self.database.connection() as connection:
            chart = await find_chart(connection)
            names = await name_actors(connection, [] if chart is None else [chart.imported_by])
            rates = await list_tax_rates(connection)
            as_of = await rates_as_of(connection)
            newest = await list_newest_rates(connection)
            series = await list_series(connection, viewer.mode)
            guarded = await list_guarded(connection)
        settings, today = self.settings, self.today()
        day = max((each.day for each in newest), default=None)
        return self.layout.page(
            viewer,
            "operator_books.html",
            form,
            entered=form or Form(_office_fields(chart)),
            chart=chart,
            names=names,
            rates=rates,
            rates_as_of=as_of,
            rates_are_old=today - as_of > OLDEST_RATES,
            exchange_rates=newest,
            exchange_day=day,
            exchange_is_old=day is None or today - day > MAX_AGE,
            home_currency=home_currency_of(settings),
            series=series,
            settings=settings,
            guarded=guarded,
            limits=[(name, getattr(settings, name)) for name in LIMITS],
        )


def _office_fields(chart: Any) -> dict[str, list[str]]:
    if chart is None:
        return {"year_begins": ["1"]}
    return {name: [str(getattr(chart, name))] for name in ("consultant", "client", "year_begins")}


def _number(form: Form, name: str, most: int) -> int:
    text = form.value(name)
    if text.isascii() and text.isdigit() and 1 <= int(text[:9]) <= most:
        return int(text)
    form.fail(name, f"Enter a number from 1 to {most:,}.")
    return 1
