"""The members of an organisation, their roles, and invitations."""

from msgspec import field

from tonne.apps.dashboard.page import DashboardPage, OrganisationSection
from tonne.apps.dashboard.viewer import Form, MemberViewer, existing
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.http.route import Response
from tonne.platform.web.render import see_other
from tonne.selling.users.act_as import list_periods
from tonne.selling.users.create_user import grant_role, remove_member
from tonne.selling.users.link_store import list_invitations
from tonne.selling.users.links import invite, revoke_invitation
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
_NO_ROLE = "Choose a role."
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

    async def invite(self, viewer: MemberViewer, form: Form) -> Response:
        email, role = form.email(), form.choice("role", Role, _NO_ROLE)
        if role is not None and not form.faults:
            async with self.saving(form) as tx:
                self.invitations.require(viewer.organisation_id, message=_TOO_MANY)
                await invite(
                    tx,
                    self.settings,
                    viewer.organisation_id,
                    email,
                    role,
                    granter=viewer.membership.role,
                    invited_by=viewer.user.name,
                    by=viewer.actor.at(self.clock()),
                )
        if form.faults:
            return await self.show(viewer, form)
        return see_other(f"{viewer.base}/people?done=invited")

    async def revoke_invitation(self, viewer: MemberViewer, _: Form) -> Response:
        async with self.database.transaction() as tx:
            await revoke_invitation(
                tx, viewer.organisation_id, viewer.request.path("link_id"), by=viewer.actor.at(self.clock())
            )
        return see_other(f"{viewer.base}/people?done=revoked")

    async def change_role(self, viewer: MemberViewer, form: Form) -> Response:
        member = await self._find(viewer)
        role = form.choice("role", Role, _NO_ROLE)
        if role is not None:
            async with self.saving(form) as tx:
                await grant_role(
                    tx,
                    viewer.organisation_id,
                    member.user_id,
                    role,
                    granter=viewer.membership.role,
                    by=viewer.actor.at(self.clock()),
                )
        if form.faults:
            return await self.show_member(viewer, form)
        return see_other(f"{viewer.base}/people?done=role")

    async def remove(self, viewer: MemberViewer, form: Form) -> Response:
        member = await self._find(viewer)
        async with self.saving(form) as tx:
            await remove_member(
                tx,
                viewer.organisation_id,
                member.user_id,
                granter=viewer.membership.role,
                by=viewer.actor.at(self.clock()),
            )
        if form.faults:
            return await self.show_member(viewer, form)
        return see_other(f"{viewer.base}/people?done=removed")

    async def _find(self, viewer: MemberViewer) -> Member:
        members = await self.database.run(list_members, viewer.organisation_id)
        return existing(next((each for each in members if each.user_id == viewer.request.path("user_id")), None))

    async def show(self, viewer: MemberViewer, form: Form | None = None) -> Response:
        form = form or Form()
        async with self.database.connection() as connection:
            members = await list_members(connection, viewer.organisation_id)
            invitations = await list_invitations(connection, viewer.organisation_id, self.clock())
            visits = await list_periods(connection, viewer.organisation_id)
        return self.layout.page(
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

    async def show_member(self, viewer: MemberViewer, form: Form | None = None) -> Response:
        member = await self._find(viewer)
        return self.layout.page(viewer, "member.html", form, member=member, roles=_grantable(viewer))


def _grantable(viewer: MemberViewer) -> list[tuple[Role, str]]:
    return [(role, what) for role, what in ROLES.items() if may_grant(viewer.membership.role, role)]
