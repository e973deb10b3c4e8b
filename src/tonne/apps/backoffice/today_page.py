"""The operator's first page: everything that needs a person, each with its next step."""

from collections.abc import Callable
from datetime import timedelta

from markupsafe import Markup

from tonne.apps.backoffice import today_checks
from tonne.apps.backoffice.found_text import found_text
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import OperatorViewer, existing
from tonne.apps.lookup.doctor.doctor_run_store import find_last_run
from tonne.platform.http.route import Response
from tonne.platform.values.context import Mode
from tonne.platform.web.visitor import locale_of
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.supply.stock.supply_cover import cover_of, read_sales

# Objects listed per check before the link to all.
SHOWN = 5
# The doctor should run once a day; see the documentation of operations.
DOCTOR_EVERY = timedelta(days=2)


class TodayPage(DashboardPage, frozen=True):
    catalogues: Catalogues

    def section(self) -> OperatorSection:
        return OperatorSection(pages={"/today": self.show, "/today/{check}": self.show_all})

    async def show(self, viewer: OperatorViewer) -> Response:
        now = self.clock()
        groups: dict[today_checks.TopicHeading, list[today_checks.TodayItem]] = {}
        async with self.database.connection() as connection:
            for check in today_checks.checks_of(viewer.mode):
                found = await today_checks.find_item(connection, check, self.settings, now, today_checks.MAX_COUNTED)
                if found is not None:
                    groups.setdefault(today_checks.HEADINGS[check.topic], []).append(found)
            sales = await read_sales(connection, viewer.mode)
            doctor = await find_last_run(connection)
        # Test supply does not run out.
        supply = cover_of(await self.catalogues.current(viewer.mode), sales) if viewer.mode is Mode.LIVE else []
        return self.layout.page(
            viewer,
            "operator_today.html",
            short=[cover for cover in supply if cover.is_short],
            sales_days=sales.days,
            doctor=doctor,
            doctor_is_old=doctor is None or now - doctor.finished_at > DOCTOR_EVERY,
            groups=[(each, groups[each]) for each in today_checks.HEADINGS.values() if each in groups],
            now=now,
            shown=SHOWN,
            text=_writer(viewer),
        )

    async def show_all(self, viewer: OperatorViewer) -> Response:
        requested = viewer.request.path("check")
        check = existing(
            next(
                (each for each in today_checks.checks_of(viewer.mode) if today_checks.slug_of(each) == requested), None
            )
        )
        found = await self.database.run(
            today_checks.find_item, check, self.settings, self.clock(), today_checks.MAX_LISTED
        )
        return self.layout.page(
            viewer,
            "operator_today_all.html",
            check=check,
            heading=today_checks.HEADINGS[check.topic],
            found=found,
            text=_writer(viewer),
        )


def _writer(viewer: OperatorViewer) -> Callable[[str], Markup]:
    locale = locale_of(viewer.request.headers.get(b"accept-language", b"").decode("latin-1"))
    pages = {prefix: f"{viewer.base}{path}" for prefix, path in today_checks.OBJECT_PAGES.items()}
    return lambda text: found_text(text, pages, locale)
