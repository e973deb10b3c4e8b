"""The members of an organisation, their roles, and invitations."""

from msgspec import field

from tonne.apps.dashboard.form import Form
from tonne.apps.dashboard.page import DashboardPage
from tonne.apps.dashboard.section import OrganisationSection
from tonne.apps.dashboard.viewer import DashboardPageNotFound, Fields, MemberViewer
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Request, Response
from tonne.platform.values.errors import TonneError
from tonne.platform.web.render import see_other
from tonne.selling.users.act_as_store import list_periods
from tonne.selling.users.create_user import grant_role, remove_member
from tonne.selling.users.invitations import invite, revoke_invitation
from tonne.selling.users.link_store import list_invitations
from tonne.selling.users.model import Member, Right, Role, may_grant
from tonne.selling.users.store import list_members

ROLES = {
    Role.OWNER: "Everything, including making other people owners.",
    Role.ADMIN: "Everything, except changing owners.",
    Role.FINANCE: "Sees everything. Buys, pays and refunds.",
    Role.DEVELOPER: "Sees everything. Manages webhooks and keys of test mode.",
    Role.READ_ONLY: "Sees everything and changes nothing.",
}
# Mails go to addresses that a member types in: per organisation 20 at once, then one every 5 minutes.
INVITATIONS = 20
INVITATIONS_PER_S = 1 / 300
_TOO_MANY = "Too many invitations. Wait a few minutes, then try again."


class PeoplePage(DashboardPage, frozen=True):
    invitations: TokenBuckets = field(
        default_factory=lambda: TokenBuckets("invitations", INVITATIONS_PER_S, INVITATIONS)
    )

    def section(self) -> OrganisationSection:
        return OrganisationSection(
            pages={"/people": (self.show, Right.VIEW), "/people/{user_id}": (self.show_member, Right.PEOPLE)},
            forms={
                "/people": (self.invite, Right.PEOPLE),
                "/people/{user_id}/role": (self.change_role, Right.PEOPLE),
                "/people/{user_id}/remove": (self.remove, Right.PEOPLE),
                "/invitations/{link_id}/revoke": (self.revoke_invitation, Right.PEOPLE),
            },
            limits=(self.invitations,),
        )

    async def show(self, request: Request, viewer: MemberViewer) -> Response:
        return await self._page(request, viewer, Form())

    async def invite(self, request: Request, viewer: MemberViewer, fields: Fields) -> Response:
        form = Form(fields)
        email, role = form.email(), _read_role(form)
        if role is not None and not form.faults:
            try:
                self.invitations.require(viewer.organisation_id, message=_TOO_MANY)
                async with self.database.transaction() as tx:
                    await invite(
                        tx,
                        self.settings,
                        viewer.organisation_id,
                        email,
                        role,
                        granter=viewer.membership.role,
                        invited_by=viewer.user.name,
                        actor=viewer.actor,
                        now=self.clock(),
                    )
            except TonneError as error:
                form.fail_with(error)
            else:
                return see_other(f"{viewer.base}/people?done=invited")
        return await self._page(request, viewer, form)

    async def revoke_invitation(self, request: Request, viewer: MemberViewer, _: Fields) -> Response:
        async with self.database.transaction() as tx:
            await revoke_invitation(
                tx, viewer.organisation_id, request.path("link_id"), actor=viewer.actor, now=self.clock()
            )
        return see_other(f"{viewer.base}/people?done=revoked")

    async def show_member(self, request: Request, viewer: MemberViewer) -> Response:
        return await self._member_page(request, viewer, Form())

    async def change_role(self, request: Request, viewer: MemberViewer, fields: Fields) -> Response:
        form, member = Form(fields), await self._find(request, viewer)
        role = _read_role(form)
        if role is not None:
            try:
                async with self.database.transaction() as tx:
                    await grant_role(
                        tx,
                        viewer.organisation_id,
                        member.user_id,
                        role,
                        granter=viewer.membership.role,
                        actor=viewer.actor,
                        now=self.clock(),
                    )
            except TonneError as error:
                form.fail_with(error)
            else:
                return see_other(f"{viewer.base}/people?done=role")
        return await self._member_page(request, viewer, form)

    async def remove(self, request: Request, viewer: MemberViewer, fields: Fields) -> Response:
        form, member = Form(fields), await self._find(request, viewer)
        try:
            async with self.database.transaction() as tx:
                await remove_member(
                    tx,
                    viewer.organisation_id,
                    member.user_id,
                    granter=viewer.membership.role,
                    actor=viewer.actor,
                    now=self.clock(),
                )
        except TonneError as error:
            form.fail_with(error)
            return await self._member_page(request, viewer, form)
        return see_other(f"{viewer.base}/people?done=removed")

    async def _find(self, request: Request, viewer: MemberViewer) -> Member:
        async with self.database.connection() as connection:
            members = await list_members(connection, viewer.organisation_id)
        for member in members:
            if member.user_id == request.path("user_id"):
                return member
        raise DashboardPageNotFound

    async def _page(self, request: Request, viewer: MemberViewer, form: Form) -> Response:
        async with self.database.connection() as connection:
            members = await list_members(connection, viewer.organisation_id)
            invitations = await list_invitations(connection, viewer.organisation_id, self.clock())
            visits = await list_periods(connection, viewer.organisation_id)
        return self.layout.page(
            request,
            viewer,
            "people.html",
            form,
            members=members,
            invitations=invitations,
            visits=visits,
            email=form.value("email"),
            chosen=form.value("role") or Role.READ_ONLY,
            roles=_grantable(viewer),
        )

    async def _member_page(self, request: Request, viewer: MemberViewer, form: Form) -> Response:
        member = await self._find(request, viewer)
        return self.layout.page(request, viewer, "member.html", form, member=member, roles=_grantable(viewer))


def _grantable(viewer: MemberViewer) -> list[tuple[Role, str]]:
    return [(role, what) for role, what in ROLES.items() if may_grant(viewer.membership.role, role)]


def _read_role(form: Form) -> Role | None:
    try:
        return Role(form.value("role"))
    except ValueError:
        form.fail("role", "Choose a role.")
        return None
