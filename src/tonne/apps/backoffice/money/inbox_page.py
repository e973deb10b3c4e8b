"""The statement inbox: upload a bank statement, see what it would do, import it, and decide about what is left."""

from datetime import UTC, date, datetime

from tonne.apps.dashboard.list_place import place_of, read_day, read_moment
from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, OperatorViewer
from tonne.money.accounting.matching.assign_transfer import decide_doubtful
from tonne.money.accounting.matching.import_statement import StatementOptions, suggest_splits_any_account
from tonne.money.accounting.matching.match_line import suggest_matches_any_account
from tonne.money.accounting.matching.upload_store import (
    MAX_UPLOAD_BYTES,
    ask_for_import,
    discard_upload,
    find_upload,
    list_uploads,
    upload_statement,
)
from tonne.money.bank.doubtful_store import list_doubtful_any_account
from tonne.money.bank.formats.csv_statement import Spelling
from tonne.money.bank.formats.identity import Verdict
from tonne.money.bank.formats.local_numbers import DateOrder, DecimalMark
from tonne.money.bank.transfer_model import TransferState
from tonne.money.bank.transfer_store import (
    find_transfers_any_account,
    list_booked_any_account,
    list_waiting_any_account,
)
from tonne.money.invoices.errors import DoubtfulLineNotFound, StatementUploadNotFound
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.http.route import Response
from tonne.platform.values.iban import is_iban
from tonne.platform.web.render import see_other
from tonne.selling.users.names import name_actors

PAGE = 20
# Seconds until the page of a file that is being read shows how far that is.
REFRESH_S = 2
BEGINNING = datetime(1970, 1, 1, tzinfo=UTC)
OUTCOMES = {
    TransferState.MATCHED: ("Pays an invoice", ""),
    TransferState.PART_PAYMENT: ("Part payment", "warn"),
    TransferState.OVERPAID: ("Too much", "warn"),
    TransferState.UNMATCHED: ("No match", "warn"),
    TransferState.ASSIGNED: ("Assigned", ""),
    TransferState.TO_RETURN: ("To return", "warn"),
    TransferState.RETURNED: ("Returned", ""),
    TransferState.OUTGOING: ("Outgoing", ""),
    Verdict.KNOWN: ("Imported before", ""),
    Verdict.DOUBTFUL: ("Maybe imported before", "warn"),
}
STATEMENTS = "/money/statements/{upload_id}"


class InboxPage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={"/money/inbox": self.show, STATEMENTS: self.preview, "/money/transfers": self.list_transfers},
            forms={
                "/money/inbox": self.upload,
                f"{STATEMENTS}/import": self.import_,
                f"{STATEMENTS}/discard": self.discard,
                "/money/doubtful/{line_id}": self.decide,
            },
            errors=(StatementUploadNotFound, DoubtfulLineNotFound),
            uploads={"/money/inbox": MAX_UPLOAD_BYTES + 64 * 1024},
        )

    async def upload(self, viewer: OperatorViewer, form: Form) -> Response:
        sent = viewer.request.file("statement")
        if sent is None or not sent.content:
            form.fail("statement", "Choose the file of a bank statement.")
        elif len(sent.content) > MAX_UPLOAD_BYTES:
            form.fail("statement", "The file is larger than 20 MB. Import it with `tonne invoice import-statement`.")
        iban = form.value("iban") or None
        if iban is not None and not is_iban(iban):
            form.fail("iban", "The IBAN is not valid: its check digits are wrong.")
        if form.faults or sent is None:
            return await self.show(viewer, form)
        upload_id = await self.database.commit(
            upload_statement,
            viewer.mode,
            SheetFile(sent.name, sent.content),
            StatementOptions(_spelling(form), iban),
            by=viewer.actor.at(self.clock()),
        )
        return see_other(f"{viewer.base}/money/statements/{upload_id}")

    async def preview(self, viewer: OperatorViewer) -> Response:
        """What the import would do, or how far reading or importing the file is."""
        [is_asked] = viewer.request.query("importing")
        try:
            async with self.database.connection() as connection:
                upload = await find_upload(connection, viewer.mode, viewer.request.path("upload_id"))
                names = await name_actors(connection, [upload.uploaded_by])
        except StatementUploadNotFound:
            if is_asked is None:
                raise
            return see_other(f"{viewer.base}/money/inbox?done=statement_imported")
        seen = upload.seen
        page = self.layout.page(
            viewer,
            "operator_statement.html",
            tab="inbox",
            upload=upload,
            uploaded_by=names.get(upload.uploaded_by, ""),
            seen=seen,
            left_out=sum(count for count, _ in seen.outcomes.values()) - len(seen.lines),
            is_news=bool(seen.outcomes.keys() - {Verdict.KNOWN}),
            outcomes=OUTCOMES,
        )
        if upload.is_in_work:
            page.headers["Refresh"] = str(REFRESH_S)
        return page

    async def import_(self, viewer: OperatorViewer, _: Form) -> Response:
        address = f"{viewer.base}/money/statements/{viewer.request.path('upload_id')}"
        is_asked = await self.database.commit(
            ask_for_import, viewer.mode, viewer.request.path("upload_id"), by=viewer.actor.at(self.clock())
        )
        # Otherwise the page says why it cannot be imported.
        return see_other(f"{address}?importing=1" if is_asked else address)

    async def discard(self, viewer: OperatorViewer, _: Form) -> Response:
        await self.database.commit(
            discard_upload, viewer.mode, viewer.request.path("upload_id"), by=viewer.actor.at(self.clock())
        )
        return see_other(f"{viewer.base}/money/inbox?done=statement_discarded")

    async def decide(self, viewer: OperatorViewer, form: Form) -> Response:
        """Whether a doubtful line is a transfer that was imported before."""
        line_id = viewer.request.path("line_id")
        if form.value("decision") not in {"same", "different"}:
            form.fail("", "Choose whether it is the same transfer or a new one.")
            return await self.show(viewer, form)
        async with self.database.transaction() as tx:
            if line_id not in {each.id for each in await list_doubtful_any_account(tx, viewer.mode)}:
                raise DashboardPageNotFound
            is_same = form.value("decision") == "same"
            by = viewer.actor.at(self.clock())
            await decide_doubtful(tx, line_id, is_same=is_same, settings=self.settings, by=by)
        self.notifier.notify()
        return see_other(f"{viewer.base}/money/inbox?done=doubt_decided")

    async def list_transfers(self, viewer: OperatorViewer) -> Response:
        [after] = viewer.request.query("after")
        found = await self.database.run(list_booked_any_account, viewer.mode, read_day(after, date.max), PAGE + 1)
        shown = found[:PAGE]
        return self.layout.page(
            viewer,
            "operator_transfers.html",
            tab="inbox",
            transfers=shown,
            next_after=f"{shown[-1].booked_on}_{shown[-1].id}" if len(found) > PAGE else None,
            outcomes=OUTCOMES,
        )

    async def show(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        form = form or Form()
        [after] = viewer.request.query("after")
        async with self.database.connection() as connection:
            found = await list_waiting_any_account(connection, viewer.mode, read_moment(after, BEGINNING), PAGE + 1)
            shown = found[:PAGE]
            suggested = await suggest_matches_any_account(connection, viewer.mode, shown)
            splits = await suggest_splits_any_account(connection, shown)
            doubtful = await list_doubtful_any_account(connection, viewer.mode)
            alike = {
                each.id: each
                for each in await find_transfers_any_account(connection, [each.transfer_id for each in doubtful])
            }
            uploads = await list_uploads(connection, viewer.mode)
            names = await name_actors(connection, [each.uploaded_by for each in uploads])
        last = shown[-1] if len(found) > PAGE else None
        return self.layout.page(
            viewer,
            "operator_inbox.html",
            form,
            tab="inbox",
            transfers=shown,
            suggested=suggested,
            splits=splits,
            doubtful=[(each, alike[each.transfer_id]) for each in doubtful],
            uploads=uploads,
            names=names,
            outcomes=OUTCOMES,
            entered={name: form.value(name) for name in ("dates", "decimals", "iban")},
            next_after=None if last is None else place_of(last.imported_at, last.id),
        )


def _spelling(form: Form) -> Spelling:
    dates, decimals = form.value("dates"), form.value("decimals")
    return Spelling(
        DateOrder(dates) if dates in set(DateOrder) else None,
        DecimalMark(decimals) if decimals in set(DecimalMark) else None,
    )
