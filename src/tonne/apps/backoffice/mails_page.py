"""Mails that were given up, each with the two things that an operator can do."""

from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import Form, OperatorViewer
from tonne.platform.documents.mail import retry_mail
from tonne.platform.http.route import Request, Response
from tonne.platform.web.render import see_other

MAX_LISTED = 100
ONE = "/mails/{mail_id}"


class MailsPage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={"/mails": self.show, ONE: self.show_mail},
            forms={f"{ONE}/retry": self.retry, f"{ONE}/discard": self.discard},
            errors=(retry_mail.MailNotFailed,),
        )

    async def show(self, viewer: OperatorViewer) -> Response:
        mails = await self.database.run(retry_mail.list_failed_any_account, MAX_LISTED)
        return self.layout.page(viewer, "operator_mails.html", mails=mails, is_more=len(mails) == MAX_LISTED)

    async def show_mail(self, viewer: OperatorViewer) -> Response:
        mail = await self._find(viewer.request)
        return self.layout.page(viewer, "operator_mail.html", mail=mail)

    async def retry(self, viewer: OperatorViewer, _: Form) -> Response:
        mail = await self._find(viewer.request)
        async with self.database.transaction() as tx:
            await retry_mail.retry_failed_mail_any_account(tx, mail.id, by=viewer.actor.at(self.clock()))
        return see_other(f"{viewer.base}/mails?done=mail_retried")

    async def discard(self, viewer: OperatorViewer, _: Form) -> Response:
        mail = await self._find(viewer.request)
        async with self.database.transaction() as tx:
            await retry_mail.discard_failed_mail_any_account(tx, mail.id, by=viewer.actor.at(self.clock()))
        return see_other(f"{viewer.base}/mails?done=mail_discarded")

    async def _find(self, request: Request) -> retry_mail.FailedMail:
        return await self.find(retry_mail.find_failed_any_account, request.path("mail_id"))
