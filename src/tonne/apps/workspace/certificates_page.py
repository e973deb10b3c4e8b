"""The certificates of an organisation."""

from datetime import datetime, timedelta
from decimal import Decimal
from urllib.parse import urlencode

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import Form, MemberViewer
from tonne.platform.db.database import Connection
from tonne.platform.http.route import Response
from tonne.platform.values.amounts import MassUnit, to_grams
from tonne.platform.values.paging import CursorInvalid, Position, make_cursor, parse_cursor
from tonne.selling.users.model import Right
from tonne.supply.certificates.store import (
    SCANNED,
    CertificateFilter,
    ListedCertificates,
    StoredCertificate,
    find_certificates,
    list_certificates,
    normal_number,
)

PAGE = 50
MAX_TERM = 200
NAMES = ("q", "since", "until")


class CertificatesPage(DashboardPage, frozen=True):
    def section(self) -> OrganisationSection:
        return OrganisationSection(pages={"/certificates": (self.show, Right.VIEW)}, errors=(CursorInvalid,))

    async def show(self, viewer: MemberViewer) -> Response:
        given = zip(NAMES, viewer.request.query(*NAMES), strict=True)
        shown = {name: text.strip()[:MAX_TERM] for name, text in given if text is not None and text.strip()}
        form = Form({name: [text] for name, text in shown.items()})
        list_name = f"certificates {viewer.mode} {viewer.organisation_id} {urlencode(shown)}"
        (after,) = viewer.request.query("after")
        start = parse_cursor(after, list_name)
        page = await self.database.run(_find, viewer, form, start)
        onward = None if page.next is None else urlencode({**shown, "after": make_cursor(page.next, list_name)})
        return self.layout.page(
            viewer,
            "certificates.html",
            form,
            rows=[_row(each) for each in page.certificates],
            is_short=page.is_short,
            onward=onward,
            shown=shown,
            scanned=str(SCANNED),
        )


async def _find(connection: Connection, viewer: MemberViewer, form: Form, start: Position) -> ListedCertificates:
    since, until = form.day("since"), form.day("until")
    if form.faults:
        return ListedCertificates([], None, is_short=False)
    organisation_id, term = viewer.organisation_id, form.value("q")
    if term:
        number = normal_number(term)
        found = await find_certificates(connection, organisation_id, viewer.mode, number=number, order_id=term)
        if found:
            return ListedCertificates(found, None, is_short=False)
    requested = CertificateFilter(
        mode=viewer.mode,
        text=term or None,
        since=since,
        until=None if until is None else until + timedelta(days=1),
    )
    return await list_certificates(connection, organisation_id, requested, start, limit=PAGE)


def _row(certificate: StoredCertificate) -> dict[str, object]:
    record = certificate.record
    return {
        "number": record.number,
        "order_id": record.order_id,
        "issued_at": datetime.fromisoformat(record.issued_at),
        "grams": to_grams(Decimal(record.total_quantity), MassUnit.T),
        "beneficiary": record.beneficiary,
        "projects": list(dict.fromkeys(line.project_name for line in record.lines)),
        "state": certificate.state,
        "is_public": certificate.is_public,
    }
