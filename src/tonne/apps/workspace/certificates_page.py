"""The certificates of an organisation, and its audit packs: ask for one, watch its progress, download it."""

from collections.abc import AsyncGenerator
from datetime import date, datetime, timedelta
from decimal import Decimal
from urllib.parse import urlencode

from msgspec import field

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, MemberViewer
from tonne.platform.db.database import Connection
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Response
from tonne.platform.keys.signing.errors import SigningUnavailable
from tonne.platform.values.amounts import MassUnit, to_grams
from tonne.platform.values.paging import CursorInvalid, Position, make_cursor, parse_cursor
from tonne.platform.web.render import see_other
from tonne.selling.users.model import Right
from tonne.supply.certificates.credentials.issue_credential import RenderCertificate
from tonne.supply.certificates.packs.make_packs import remove_pack, request_pack
from tonne.supply.certificates.packs.model import AuditPack, PackStatus
from tonne.supply.certificates.packs.store import find_pack, list_packs, list_records, read_part
from tonne.supply.certificates.store import (
    SCANNED,
    CertificateFilter,
    ListedCertificates,
    StoredCertificate,
    find_certificates,
    list_certificates,
    normal_number,
)
from tonne.supply.certificates.zip_certificates import begin, zip_certificates

PAGE = 50
MAX_TERM = 200
NAMES = ("q", "since", "until")
_TOO_MANY = "Too many downloads at once. Wait a minute, then try again."


class CertificatesPage(DashboardPage, frozen=True):
    certificates: RenderCertificate
    # Rendering takes time: per organisation 5 files at once, then one every half a minute.
    downloads: TokenBuckets = field(default_factory=lambda: TokenBuckets("certificate_zips", 1 / 30, 5))

    def section(self) -> OrganisationSection:
        return OrganisationSection(
            pages={"/certificates": (self.show, Right.VIEW)},
            forms={"/certificates/download": (self.download, Right.VIEW)},
            errors=(CursorInvalid, SigningUnavailable),
            limits=(self.downloads,),
        )

    async def download(self, viewer: MemberViewer, form: Form) -> Response:
        """The selected certificates of one page of the list, as one ZIP file."""
        numbers = [each for each in form.fields.get("number", []) if normal_number(each)]
        if not numbers:
            form.fail("", "Select certificates first.")
        elif len(numbers) > PAGE:
            form.fail("", f"Select at most {PAGE} certificates. For more, ask for an audit pack.")
        else:
            with form.catch():
                self.downloads.require(viewer.organisation_id, message=_TOO_MANY)
        if form.faults:
            return await self.show(viewer, form)
        records = await self.database.run(list_records, viewer.tenant, numbers)
        if not records:
            raise DashboardPageNotFound
        parts = await begin(zip_certificates(self.certificates, records))
        headers = {
            "Content-Disposition": f'attachment; filename="certificates-{self.today()}.zip"',
            "Cache-Control": "no-store",
        }
        return Response(b"", media_type=b"application/zip", headers=headers, stream=parts)

    async def show(self, viewer: MemberViewer, selected: Form | None = None) -> Response:
        given = zip(NAMES, viewer.request.query(*NAMES), strict=True)
        shown = {name: text.strip()[:MAX_TERM] for name, text in given if text is not None and text.strip()}
        form = Form({name: [text] for name, text in shown.items()})
        list_name = f"certificates {viewer.mode} {viewer.organisation_id} {urlencode(shown)}"
        (after,) = viewer.request.query("after")
        start = parse_cursor(after, list_name)
        page = await self.database.run(_find, viewer, form, start)
        if selected is not None:
            form.faults.update(selected.faults)
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
        found = await find_certificates(connection, viewer.tenant, number=number, order_id=term)
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


class AuditPacksPage(DashboardPage, frozen=True):
    def section(self) -> OrganisationSection:
        one = "/audit-packs/{pack_id}"
        return OrganisationSection(
            pages={
                "/audit-packs": (self.show, Right.VIEW),
                f"{one}/file": (self.download, Right.VIEW),
                f"{one}/delete": (self.confirm_delete, Right.MONEY),
            },
            forms={"/audit-packs": (self.request, Right.MONEY), f"{one}/delete": (self.delete, Right.MONEY)},
        )

    async def request(self, viewer: MemberViewer, form: Form) -> Response:
        first, last = _read_day(form, "first_day"), _read_day(form, "last_day")
        if first is not None and last is not None and first > last:
            form.fail("last_day", "The last day must not be before the first.")
        if first is not None and last is not None and not form.faults:
            async with self.saving(form) as tx:
                await request_pack(tx, viewer.tenant, (first, last), by=viewer.actor.at(self.clock()))
        if form.faults:
            return await self.show(viewer, form)
        return see_other(f"{viewer.base}/audit-packs?done=pack_requested")

    async def download(self, viewer: MemberViewer) -> Response:
        pack = await self._find(viewer)
        if pack.status is not PackStatus.READY:
            raise DashboardPageNotFound
        headers = {
            "Content-Disposition": f'attachment; filename="{pack.file_name}"',
            "Content-Length": str(pack.bytes),
            "Cache-Control": "no-store",
        }
        return Response(b"", media_type=b"application/zip", headers=headers, stream=self._parts(pack))

    async def confirm_delete(self, viewer: MemberViewer) -> Response:
        pack = await self._find(viewer)
        return self.layout.page(viewer, "audit_pack_delete.html", pack=pack)

    async def delete(self, viewer: MemberViewer, _: Form) -> Response:
        pack = await self._find(viewer)
        await self.database.commit(remove_pack, pack, by=viewer.actor.at(self.clock()))
        return see_other(f"{viewer.base}/audit-packs?done=pack_deleted")

    async def _parts(self, pack: AuditPack) -> AsyncGenerator[bytes]:
        """Each piece by itself: a slow client does not keep a connection to the database."""
        number = 0
        while True:
            content = await self.database.run(read_part, pack, number)
            if content is None:
                return
            yield content
            number += 1

    async def _find(self, viewer: MemberViewer) -> AuditPack:
        return await self.find(find_pack, viewer.tenant, viewer.request.path("pack_id"))

    async def show(self, viewer: MemberViewer, form: Form | None = None) -> Response:
        form = form or Form()
        packs = await self.database.run(list_packs, viewer.tenant)
        today = self.clock().date()
        presets = _periods(today)
        # The last complete year is what auditors ask for.
        asked = zip(("first_day", "last_day"), viewer.request.query("first_day", "last_day"), strict=True)
        asked_for = {name: text for name, text in asked if text}
        _, first, last = presets[0]
        return self.layout.page(
            viewer,
            "audit_packs.html",
            form,
            packs=packs,
            is_waiting=any(pack.status is PackStatus.WAITING for pack in packs),
            presets=presets,
            first_day=form.value("first_day") or asked_for.get("first_day", str(first)),
            last_day=form.value("last_day") or asked_for.get("last_day", str(last)),
        )


def _periods(today: date) -> list[tuple[str, date, date]]:
    """The last year, this year so far, and the last four quarters that are over: name, first and last day."""
    start = date(today.year, 1, 1)
    found = [(str(today.year - 1), date(today.year - 1, 1, 1), start - timedelta(days=1))]
    found.append((f"{today.year} so far", start, today))
    first = date(today.year, 3 * ((today.month - 1) // 3) + 1, 1)
    for _ in range(4):
        last = first - timedelta(days=1)
        first = date(last.year, last.month - 2, 1)
        found.append((f"Q{last.month // 3} {last.year}", first, last))
    return found


def _read_day(form: Form, name: str) -> date | None:
    try:
        return date.fromisoformat(form.value(name))
    except ValueError:
        form.fail(name, "Enter a day such as 2026-01-31.")
        return None
