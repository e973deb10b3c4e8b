"""Audit packs: ask for one, watch its progress, download it."""

from collections.abc import AsyncIterator
from datetime import date, timedelta

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, MemberViewer
from tonne.platform.http.route import Response
from tonne.platform.web.render import see_other
from tonne.selling.users.model import Right
from tonne.supply.certificates.packs.make_packs import remove_pack, request_pack
from tonne.supply.certificates.packs.model import AuditPack, PackStatus
from tonne.supply.certificates.packs.store import find_pack, list_packs, read_part


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
                await request_pack(
                    tx, viewer.organisation_id, viewer.mode, (first, last), actor=viewer.actor, now=self.clock()
                )
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
        async with self.database.transaction() as tx:
            await remove_pack(tx, pack, actor=viewer.actor, now=self.clock())
        return see_other(f"{viewer.base}/audit-packs?done=pack_deleted")

    async def _parts(self, pack: AuditPack) -> AsyncIterator[bytes]:
        """Each piece by itself: a slow client does not keep a connection to the database."""
        number = 0
        while True:
            content = await self.database.run(read_part, pack, number)
            if content is None:
                return
            yield content
            number += 1

    async def _find(self, viewer: MemberViewer) -> AuditPack:
        return await self.find(find_pack, viewer.organisation_id, viewer.mode, viewer.request.path("pack_id"))

    async def show(self, viewer: MemberViewer, form: Form | None = None) -> Response:
        form = form or Form()
        packs = await self.database.run(list_packs, viewer.organisation_id, viewer.mode)
        today = self.clock().date()
        # The last complete year, which is what auditors ask for; in the first year, the current one.
        first, last = date(today.year - 1, 1, 1), date(today.year, 1, 1) - timedelta(days=1)
        return self.layout.page(
            viewer,
            "audit_packs.html",
            form,
            packs=packs,
            is_waiting=any(pack.status is PackStatus.WAITING for pack in packs),
            first_day=form.value("first_day") or str(first),
            last_day=form.value("last_day") or str(last),
        )


def _read_day(form: Form, name: str) -> date | None:
    try:
        return date.fromisoformat(form.value(name))
    except ValueError:
        form.fail(name, "Enter a day such as 2026-01-31.")
        return None
