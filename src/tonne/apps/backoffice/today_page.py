"""The operator's first page: everything that needs a person, each with its next step."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta

from markupsafe import Markup
from msgspec import Struct

from tonne.apps.backoffice.found_text import found_text
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import OperatorViewer, existing
from tonne.apps.lookup.doctor.doctor_checks import ALL_WAITING
from tonne.apps.lookup.doctor.doctor_run_store import find_last_run
from tonne.platform.db.database import Connection
from tonne.platform.db.queues import Topic, WaitingCheck
from tonne.platform.http.route import Response
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.snapshot import Catalogues
from tonne.supply.retirements.confirmations.work_list import IS_FOR_DESK, IS_HELD
from tonne.supply.stock.supply_cover import cover_of, read_sales

# Counting stops here: a long list must not make the page slow.
MAX_COUNTED = 100
MAX_LISTED = 1_000


class TopicHeading(Struct, frozen=True):
    """`path` is the page that deals with it, after the operator's base."""

    title: str
    label: str
    path: str

    @property
    def anchor(self) -> str:
        return self.title.lower().replace(" ", "-")


HEADINGS = {
    Topic.SERVICE: TopicHeading("The service", "Jobs and queues", "/jobs"),
    Topic.ORDERS: TopicHeading("Orders that wait", "Stuck orders", "/orders?stuck=1"),
    Topic.PAYMENTS: TopicHeading("Payments and disputes", "Disputes", "/money/disputes"),
    Topic.BANK: TopicHeading("Unmatched money", "Statement inbox", "/money/inbox"),
    Topic.REFUNDS: TopicHeading("Refunds", "Refunds", "/money/refunds"),
    Topic.INVOICES: TopicHeading("Invoices", "Invoices", "/money/invoices"),
    Topic.RETIREMENTS: TopicHeading("Retirements", "Retirement desk", "/retirements"),
    Topic.SUPPLY: TopicHeading("Supply", "Supply", "/supply"),
    Topic.REGISTRIES: TopicHeading("Registries", "Registries", "/registries"),
    Topic.RATES: TopicHeading("Prices and exchange rates", "Catalogue and prices", "/catalogue"),
    Topic.WEBHOOKS: TopicHeading("Webhooks", "Jobs and queues", "/jobs"),
    Topic.MAILS: TopicHeading("Mails", "Mails given up", "/mails"),
}
# The pages of objects, by the prefix of their ids. Invoices are found by their number.
OBJECT_PAGES = {
    "org": "/customers",
    "ord": "/orders",
    "trf": "/money/transfers",
    "ret": "/money/returns",
    "rfd": "/money/refunds",
    "rin": "/registries/requests",
    "dsp": "/money/disputes",
    "chg": "/money/payments",
    "lot": "/supply/lots",
    "prj": "/supply/projects",
    "bun": "/catalogue/bundles",
    "mail": "/mails",
    "invoice": "/money/invoices",
}
# Oldest first without reading the shares of every parcel, as the doctor does to find those that are late.
_READY_TO_RETIRE = WaitingCheck(
    "live credits are retired",
    "Credits of customers are ready to be retired at their registries.",
    "Retire them at the registries and enter the confirmations; or use `tonne retirement export` and `tonne retirement "
    "import`.",
    f"""
    SELECT format('parcel %s: %s t of project %s, since %s', parcel.id, trim_scale(parcel.quantity_grams / 1000000.0),
                  parcel.project_id, to_char(parcel.opened_at, 'YYYY-MM-DD HH24:MI')) AS "where"
    FROM parcels parcel JOIN lots lot ON lot.mode = parcel.mode AND lot.id = parcel.lot_id
    WHERE parcel.mode = 'live' AND parcel.status = 'to_retire' AND parcel.opened_at < $1::timestamptz
      AND {IS_FOR_DESK} AND NOT {IS_HELD}
    ORDER BY parcel.opened_at, parcel.id
    """,  # noqa: S608 - a constant
    topic=Topic.RETIREMENTS,
)
_REPLACED = {"live retirements are confirmed within TONNE_RETIREMENT_DAYS": _READY_TO_RETIRE}
TODAY_CHECKS = tuple(_REPLACED.get(check.name, check) for check in ALL_WAITING)


class TodayItem(Struct, frozen=True):
    """What one check has found, oldest first. `is_more`: there are more than were counted."""

    check: WaitingCheck
    places: Sequence[str]
    is_more: bool

    @property
    def slug(self) -> str:
        return slug_of(self.check)

    @property
    def count(self) -> str:
        return f"{len(self.places):,}{'+' if self.is_more else ''}"


def slug_of(check: WaitingCheck) -> str:
    """The check in addresses."""
    return re.sub(r"[^a-z0-9]+", "-", check.name.lower()).strip("-")


def checks_of(mode: Mode) -> list[WaitingCheck]:
    """Work of test mode waits for nobody: it needs only the checks that concern both modes."""
    return [check for check in TODAY_CHECKS if mode is Mode.LIVE or check.topic is Topic.SERVICE]


async def find_item(
    connection: Connection, check: WaitingCheck, settings: Settings, now: datetime, limit: int
) -> TodayItem | None:
    """What waits now, also if it waits for less time than the doctor tolerates. None if nothing does."""
    statement = f'SELECT "where" FROM ({check.sql}) AS waiting LIMIT {limit + 1}'  # noqa: S608 - our own queries
    rows = await connection.fetch(statement, *check.parameters(settings, now + check.patience))
    places = [row["where"] for row in rows]
    return TodayItem(check, places[:limit], is_more=len(places) > limit) if places else None


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
        groups: dict[TopicHeading, list[TodayItem]] = {}
        async with self.database.connection() as connection:
            for check in checks_of(viewer.mode):
                found = await find_item(connection, check, self.settings, now, MAX_COUNTED)
                if found is not None:
                    groups.setdefault(HEADINGS[check.topic], []).append(found)
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
            groups=[(each, groups[each]) for each in HEADINGS.values() if each in groups],
            now=now,
            shown=SHOWN,
            text=_writer(viewer),
        )

    async def show_all(self, viewer: OperatorViewer) -> Response:
        requested = viewer.request.path("check")
        check = existing(next((each for each in checks_of(viewer.mode) if slug_of(each) == requested), None))
        found = await self.database.run(find_item, check, self.settings, self.clock(), MAX_LISTED)
        return self.layout.page(
            viewer,
            "operator_today_all.html",
            check=check,
            heading=HEADINGS[check.topic],
            found=found,
            text=_writer(viewer),
        )


def _writer(viewer: OperatorViewer) -> Callable[[str], Markup]:
    pages = {prefix: f"{viewer.base}{path}" for prefix, path in OBJECT_PAGES.items()}
    return lambda text: found_text(text, pages)
