"""Looking at the dashboard of an organisation as the operator."""

from tonne.apps.dashboard.page import DashboardPage, OperatorSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Form, OperatorViewer, organisation_base
from tonne.platform.http.route import Response
from tonne.platform.web.render import see_other
from tonne.selling.accounts.errors import OrganisationNotFound
from tonne.selling.accounts.lookup import require_organisation
from tonne.selling.users.act_as import MAX_REASON, start_acting, stop_acting

_UNKNOWN = "There is no such organisation."
_NO_REASON = "Enter a reason, such as the number of a support request. The organisation sees it."


class ActAsPage(DashboardPage, frozen=True):
    def section(self) -> OperatorSection:
        return OperatorSection(
            pages={"/customers/{organisation_id}/act-as": self.show},
            forms={"/customers/{organisation_id}/act-as": self.start, "/act-as/end": self.end},
        )

    async def start(self, viewer: OperatorViewer, form: Form) -> Response:
        reason = form.text("reason", _NO_REASON, longest=MAX_REASON)
        organisation_id = viewer.request.path("organisation_id")
        if form.faults:
            return await self.show(viewer, form)
        try:
            async with self.database.transaction() as tx:
                await start_acting(tx, viewer.session, organisation_id, reason, by=viewer.actor.at(self.clock()))
        except OrganisationNotFound as error:
            raise DashboardPageNotFound(_UNKNOWN) from error
        return see_other(organisation_base(viewer.mode, organisation_id))

    async def end(self, viewer: OperatorViewer, _: Form) -> Response:
        organisation_id = await self.database.commit(stop_acting, viewer.session, by=viewer.actor.at(self.clock()))
        if organisation_id is None:
            return see_other(viewer.base)
        return see_other(f"{viewer.base}/customers/{organisation_id}?done=act_as_ended")

    async def show(self, viewer: OperatorViewer, form: Form | None = None) -> Response:
        """What will happen, and the reason for it."""
        form = form or Form()
        try:
            details = await self.database.run(require_organisation, viewer.request.path("organisation_id"))
        except OrganisationNotFound as error:
            raise DashboardPageNotFound(_UNKNOWN) from error
        return self.layout.page(
            viewer,
            "operator_act_as.html",
            form,
            organisation=details.organisation,
            reason=form.value("reason"),
        )
