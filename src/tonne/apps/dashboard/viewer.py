"""The signed-in user behind a request, what they may see and do, and the form that they send.

Every page of the dashboard is wrapped by `PageAccess`: a page that is not wrapped has no viewer and can show nothing.
A form collects all faults, to show each beside its field.
"""

from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, date, datetime
from enum import StrEnum
from typing import Any, TypeVar
from urllib.parse import quote

from msgspec import Struct

from tonne.apps.dashboard.security_forms import APPROVAL_FORMS, ENDING_FORMS, SECURITY_FORMS, page_of
from tonne.platform.db.database import Connection, Database
from tonne.platform.documents.mail.send_mail import is_mail_address
from tonne.platform.http.route import Access, Endpoint, Request, Response, RouteMaker
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, Mode, Tenant, is_id
from tonne.platform.values.errors import Kind, TonneError
from tonne.platform.web.render import FormGuard, see_other
from tonne.selling.users.act_as import ActAsPeriod, ActAsReadOnly, find_acting
from tonne.selling.users.approvals import Approver, approver_in_browser
from tonne.selling.users.errors import RoleRefused
from tonne.selling.users.link_store import revoke_password_links
from tonne.selling.users.model import Membership, Right, User, UserSession, role_allows
from tonne.selling.users.security_mails import send_security_mail
from tonne.selling.users.sign_in import APPROVAL_RECENT, RECENT, Sessions, is_recent, user_actor
from tonne.selling.users.store import list_memberships, revoke_sessions

E = TypeVar("E", bound=StrEnum)


class Form:
    def __init__(self, fields: Mapping[str, list[str]] | None = None) -> None:
        self._fields = fields or {}
        # By field, in the order of the form; the empty name is the whole form.
        self.faults: dict[str, str] = {}

    @property
    def fields(self) -> Mapping[str, list[str]]:
        return self._fields

    def names(self) -> list[str]:
        return list(self._fields)

    def raw(self, name: str) -> str:
        """As typed, for passwords."""
        return (self._fields.get(name) or [""])[0]

    def value(self, name: str) -> str:
        return self.raw(name).strip()

    def is_checked(self, name: str) -> bool:
        return bool(self.raw(name))

    def text(self, name: str, missing: str, *, longest: int = 200) -> str:
        """A required text. `missing` says what to enter."""
        text = self.value(name)
        if not text:
            self.fail(name, missing)
        elif len(text) > longest:
            self.fail(name, f"Use at most {longest} characters.")
        elif not text.isprintable():
            self.fail(name, "Use one line of plain text.")
        return text

    def email(self, name: str = "email") -> str:
        email = self.value(name).lower()
        if not is_mail_address(email):
            self.fail(name, "Enter an e-mail address, such as ann@example.com.")
        return email

    def choice(self, name: str, kind: type[E], missing: str) -> E | None:
        """`missing` says what to choose."""
        try:
            return kind(self.value(name))
        except ValueError:
            self.fail(name, missing)
            return None

    def day(self, name: str) -> datetime | None:
        """The beginning of a day in UTC; None if the field is empty."""
        text = self.value(name)
        try:
            day = date.fromisoformat(text) if text else None
        except ValueError:
            day = None
        # The last day of all has no day after it.
        if text and (day is None or day == date.max):
            self.fail(name, "Enter a date such as 2026-11-16.")
            return None
        return None if day is None else datetime(day.year, day.month, day.day, tzinfo=UTC)

    def fail(self, name: str, message: str) -> None:
        self.faults.setdefault(name, message)

    @contextmanager
    def catch(self) -> Iterator[None]:
        """The error of a use case ends the block and becomes a fault."""
        try:
            yield
        except TonneError as error:
            self.fail_with(error)

    def fail_with(self, error: TonneError) -> None:
        """The faults of a use case. Those without a field belong to the whole form."""
        for fault in error.faults:
            self.fail(fault.field or "", fault.message)


T = TypeVar("T")
SIGN_IN = "/dashboard/sign-in"
OPERATOR = "/operator"
# Operators see everything: a password alone is not enough.
SECOND_FACTOR_NEEDED = "/dashboard/you?done=second_factor_needed"
_NOT_ACTING = (
    "You are not a member of this organisation, or your time to look at it has ended. To look at its dashboard, open "
    "the customer in the operator area."
)


class DashboardPageNotFound(TonneError, kind=Kind.NOT_FOUND, code="not_found"):
    """There is no such page, or it belongs to an organisation that the user is not a member of.

    Check the address.
    """

    message = "There is no such page, or it belongs to an organisation that you are not a member of."


def existing(found: T | None) -> T:
    """What a page is about. Raises DashboardPageNotFound if it was not found."""
    if found is None:
        raise DashboardPageNotFound
    return found


class Viewer(Struct, frozen=True):
    """A user who is signed in completely, and what they ask for."""

    request: Request
    session: UserSession
    actor: Actor

    @property
    def user(self) -> User:
        return self.session.user


class MemberViewer(Viewer, frozen=True):
    """A viewer on a page of one organisation in one mode."""

    membership: Membership
    mode: Mode
    # Set if the viewer is no member but an operator, who may look and change nothing.
    act_as: ActAsPeriod | None = None

    @property
    def hides_secrets(self) -> bool:
        """Pages must not show this viewer keys, signing secrets and addresses that work as a password."""
        return self.act_as is not None

    def shown_url(self, url: str) -> str:
        """The address of a receiver: its path and query may contain a secret."""
        return f"{'/'.join(url.split('/', 3)[:3]).partition('?')[0]}/…" if self.hides_secrets else url

    @property
    def organisation_id(self) -> str:
        return self.membership.organisation_id

    @property
    def tenant(self) -> Tenant:
        return Tenant(self.organisation_id, self.mode)

    @property
    def base(self) -> str:
        """The start of all addresses of this organisation and mode."""
        return organisation_base(self.mode, self.organisation_id)

    def may(self, right: str) -> bool:
        return role_allows(self.membership.role, Right(right))


class OperatorViewer(Viewer, frozen=True):
    """An operator on a page about all organisations, in one mode."""

    mode: Mode

    def approver(self, now: datetime) -> Approver:
        """Raises ApprovalNotAllowed."""
        return approver_in_browser(self.session, self.actor, now)

    @property
    def base(self) -> str:
        return operator_base(self.mode)


UserPage = Callable[[Viewer], Awaitable[Response]]
UserForm = Callable[[Viewer, Form], Awaitable[Response]]
MemberPage = Callable[[MemberViewer], Awaitable[Response]]
MemberForm = Callable[[MemberViewer, Form], Awaitable[Response]]
OperatorPage = Callable[[OperatorViewer], Awaitable[Response]]
OperatorForm = Callable[[OperatorViewer, Form], Awaitable[Response]]


def organisation_base(mode: Mode, organisation_id: str) -> str:
    return f"/dashboard/{mode}/{organisation_id}"


def operator_base(mode: Mode) -> str:
    return f"{OPERATOR}/{mode}"


class PageAccess(Struct, frozen=True):
    """Wraps pages and forms: sign-in, membership, role and the token of forms are checked before they run."""

    database: Database
    sessions: Sessions
    guard: FormGuard
    settings: Settings

    def route_maker(self, **shared: Any) -> RouteMaker:
        """For the routes of these pages and forms."""
        return RouteMaker("Dashboard", Access.USER, find_payer=self.sessions.find_payer, **shared)

    def user_page(self, page: UserPage) -> Endpoint:
        async def show(request: Request) -> Response:
            session = await self.sessions.find(request)
            if session is None or not session.is_complete:
                return see_other(_sign_in_url(session, request.location))
            return await page(Viewer(request, session, user_actor(session.user, request)))

        return show

    def user_form(self, form: UserForm, path: str = "", pages: Collection[str] = ()) -> Endpoint:
        """With `path`, one of SECURITY_FORMS is recognised. `pages` are those of its section."""
        is_security = path in SECURITY_FORMS
        within = APPROVAL_RECENT if path in APPROVAL_FORMS else RECENT

        async def submit(request: Request) -> Response:
            fields = self.guard.check(request)
            session = await self.sessions.find(request)
            if session is None or not session.is_complete:
                return see_other(SIGN_IN)
            if is_security and not is_recent(session, self.sessions.now(), within):
                return see_other(sign_in_again(page_of(request.location, path, pages)))
            sent = Form(fields)
            response = await form(Viewer(request, session, user_actor(session.user, request)), sent)
            if is_security and not sent.faults and response.headers.get("Location") != SECOND_FACTOR_NEEDED:
                await self.database.commit(self._protect, session, path)
            return response

        return submit

    async def _protect(self, tx: Connection, session: UserSession, path: str) -> None:
        """After a change of security."""
        user, message, now = session.user, SECURITY_FORMS[path], self.sessions.now()
        if message is not None:
            await send_security_mail(tx, self.settings, user, message)
        if path in ENDING_FORMS:
            await revoke_sessions(tx, user.id, now, but=session.id)
            await revoke_password_links(tx, user.id, now)

    def member_page(self, mode: Mode, page: MemberPage, right: Right = Right.VIEW) -> Endpoint:
        async def show(viewer: Viewer) -> Response:
            return await page(await self._member(viewer, mode, right))

        return self.user_page(show)

    def member_form(
        self, mode: Mode, form: MemberForm, right: Right, *, path: str = "", pages: Collection[str] = ()
    ) -> Endpoint:
        async def submit(viewer: Viewer, sent: Form) -> Response:
            member = await self._member(viewer, mode, right)
            if member.act_as is not None:
                raise ActAsReadOnly
            return await form(member, sent)

        return self.user_form(submit, path, pages)

    def operator_page(self, mode: Mode, page: OperatorPage) -> Endpoint:
        async def show(viewer: Viewer) -> Response:
            operator = _operator(viewer, mode)
            return see_other(SECOND_FACTOR_NEEDED) if operator is None else await page(operator)

        return self.user_page(show)

    def operator_form(self, mode: Mode, form: OperatorForm, *, path: str = "", pages: Collection[str] = ()) -> Endpoint:
        async def submit(viewer: Viewer, sent: Form) -> Response:
            operator = _operator(viewer, mode)
            return see_other(SECOND_FACTOR_NEEDED) if operator is None else await form(operator, sent)

        return self.user_form(submit, path, pages)

    async def _member(self, viewer: Viewer, mode: Mode, right: Right) -> MemberViewer:
        """Raises DashboardPageNotFound for other organisations: a stranger cannot learn which exist."""
        organisation_id = viewer.request.path("organisation_id")
        memberships: list[Membership] = []
        if is_id("org", organisation_id):
            memberships = await self.database.run(list_memberships, viewer.user.id)
        for membership in memberships:
            if membership.organisation_id == organisation_id:
                if not role_allows(membership.role, right):
                    raise RoleRefused
                return MemberViewer(viewer.request, viewer.session, viewer.actor, membership, mode)
        return await self._acting_operator(organisation_id, viewer, mode, right)

    async def _acting_operator(self, organisation_id: str, viewer: Viewer, mode: Mode, right: Right) -> MemberViewer:
        """Raises DashboardPageNotFound, or ActAsReadOnly for what needs more than seeing."""
        if not viewer.user.is_operator or not is_id("org", organisation_id):
            raise DashboardPageNotFound
        period = await self.database.run(find_acting, organisation_id, viewer.session, self.sessions.now())
        if period is None:
            raise DashboardPageNotFound(_NOT_ACTING)
        if not role_allows(period.membership.role, right):
            raise ActAsReadOnly
        return MemberViewer(viewer.request, viewer.session, viewer.actor, period.membership, mode, period)


def _operator(viewer: Viewer, mode: Mode) -> OperatorViewer | None:
    """None without a second factor. Raises DashboardPageNotFound for people who are no operators."""
    if not viewer.user.is_operator:
        raise DashboardPageNotFound
    return OperatorViewer(viewer.request, viewer.session, viewer.actor, mode) if viewer.session.is_strong else None


def second_step(goal: str) -> str:
    """The page that asks for the second factor, then leads to the goal."""
    return f"/dashboard/code?next={quote(goal, safe='/')}"


def sign_in_again(goal: str) -> str:
    """The page that asks somebody who is signed in to prove it again, then leads to the goal."""
    return f"{SIGN_IN}?again=1&next={quote(goal, safe='/')}"


def _sign_in_url(session: UserSession | None, location: str) -> str:
    return f"{SIGN_IN}?next={quote(location, safe='/')}" if session is None else second_step(location)


def safe_next(location: str | None) -> str:
    """Where to go after signing in: only pages of the dashboard or the operator, never another site."""
    if location is None or not location.startswith(("/dashboard", "/operator")) or "\\" in location or "//" in location:
        return "/dashboard"
    return location if location.isprintable() and " " not in location else "/dashboard"
