"""What is held about a person, as a file for them, and erasing it. The address is in forms only: never in URLs."""

import msgspec

from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import Form, OperatorViewer
from tonne.apps.privacy.erase_person import erase_person
from tonne.apps.privacy.export_person import (
    export_person,
    find_person,
    list_bank_records_any_account,
    list_blockers,
)
from tonne.apps.privacy.model import Found, PersonInvalid, Search, parse_person
from tonne.apps.privacy.schemas import record_out
from tonne.platform.events.audit import record as audit
from tonne.platform.http.route import Response
from tonne.platform.web.render import see_other


class PersonsPage(DashboardPage, frozen=True):
    """In all organisations and both modes."""

    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={"/persons": self.show},
            forms={"/persons": self.look, "/persons/export": self.export, "/persons/erase": self.erase},
        )

    async def show(self, viewer: OperatorViewer) -> Response:
        return self._page(viewer, Form())

    async def look(self, viewer: OperatorViewer, form: Form) -> Response:
        search = _search(form)
        return self._page(viewer, form) if search is None else await self._found(viewer, form, search)

    async def export(self, viewer: OperatorViewer, form: Form) -> Response:
        search = _search(form)
        if search is None:
            return self._page(viewer, form)
        async with self.database.long_snapshot() as connection:
            records = await export_person(connection, search)
            records += await list_bank_records_any_account(connection, search)
        by, found_by = viewer.actor.at(self.clock()), search.person.found_by
        async with self.database.transaction() as tx:
            await audit.record(
                tx, None, "person.exported", by=by, subject_id="persons", found_by=found_by, records=len(records)
            )
        headers = {"Content-Disposition": 'attachment; filename="person.json"', "Cache-Control": "private, no-store"}
        content = msgspec.json.format(msgspec.json.encode([record_out(each) for each in records]))
        return Response(content, 200, b"application/json", headers)

    async def erase(self, viewer: OperatorViewer, form: Form) -> Response:
        search = _search(form)
        if search is None:
            return self._page(viewer, form)
        if form.value("confirmed") != "yes":
            form.fail("confirmed", "Tick the box: it cannot be undone.")
            return await self._found(viewer, form, search)
        with form.catch():
            async with self.database.long_connection() as connection:
                await erase_person(connection, search, actor=viewer.actor, clock=self.clock)
        self.notifier.notify()
        return self._page(viewer, form) if form.faults else see_other(f"{viewer.base}/persons?done=person_erased")

    async def _found(self, viewer: OperatorViewer, form: Form, search: Search) -> Response:
        async with self.database.long_snapshot() as connection:
            found = await find_person(connection, search)
            blockers = await list_blockers(connection, found)
        return self._page(viewer, form, found, blockers)

    def _page(
        self, viewer: OperatorViewer, form: Form, found: Found | None = None, blockers: list[str] | None = None
    ) -> Response:
        return self.layout.page(
            viewer,
            "operator_persons.html",
            form,
            who=form.value("who"),
            found=found,
            counts=[] if found is None else _counts(found),
            blockers=blockers or [],
        )


def _search(form: Form) -> Search | None:
    """None after a fault."""
    who = form.text("who", "Enter an e-mail address or a name.", longest=254)
    if form.faults:
        return None
    try:
        return Search(parse_person(who))
    except PersonInvalid as error:
        form.fail("who", str(error))
        return None


def _counts(found: Found) -> list[tuple[str, int, str]]:
    """What is held, how much of it, and the first id."""
    own = [each.id for each in found.orders if each.is_own]
    mentioning = [each.id for each in found.orders if not each.is_own]
    rows = (
        ("Orders of the person", own),
        ("Orders that mention the person", mentioning),
        ("Checkouts without an order", [each.id for each in found.checkouts]),
        ("Estimates", [each.id for each in found.estimates]),
        ("Mails", [each.id for each in found.mails]),
        ("Audit entries, which stay", found.mentions),
    )
    return [(what, len(ids), ids[0]) for what, ids in rows if ids]
