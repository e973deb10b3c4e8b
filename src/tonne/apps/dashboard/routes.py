"""Routes of the dashboard. Addresses of an organisation's pages contain the mode: tabs of both modes can be open."""

from collections.abc import Sequence

from msgspec import Struct

from tonne.apps.dashboard.menu import OPERATOR_MENU, ORGANISATION_MENU, entries_for
from tonne.apps.dashboard.page import OperatorSection, OrganisationSection
from tonne.apps.dashboard.sign_in_page import OidcPage, SignInPage
from tonne.apps.dashboard.viewer import (
    SIGN_IN,
    DashboardPageNotFound,
    MemberViewer,
    OperatorViewer,
    PageAccess,
    operator_base,
    organisation_base,
)
from tonne.apps.dashboard.you_page import YOU, InvitationPage, YouPage
from tonne.platform.http.errors import FormInvalid, RateLimited
from tonne.platform.http.route import MAX_BODY_BYTES, Access, Response, Route, RouteMaker
from tonne.platform.values.context import Mode
from tonne.platform.values.errors import TonneError
from tonne.platform.web.render import FormIn, FormTokenInvalid, Renderer, see_other
from tonne.selling.users.act_as import ActAsReadOnly
from tonne.selling.users.errors import (
    LinkExpired,
    PasskeyInvalid,
    PasskeyNotFound,
    PasskeyRefused,
    PasskeysUnavailable,
    PersonalTokenNotFound,
    RoleRefused,
    SignInTooOld,
)

_SENT = {303: None}
_FORM_ERRORS: tuple[type[TonneError], ...] = (FormInvalid, FormTokenInvalid)
_LIMITED: tuple[type[TonneError], ...] = (RateLimited, *_FORM_ERRORS)
_OPTIONS_ERRORS: tuple[type[TonneError], ...] = (PasskeysUnavailable, PasskeyRefused, *_LIMITED)


class DashboardPages(Struct, frozen=True):
    sign_in: SignInPage
    invitation: InvitationPage
    you: YouPage
    oidc: OidcPage


def entrance_routes(pages: DashboardPages, access: PageAccess, renderer: Renderer) -> list[Route]:
    """Pages for people who are not signed in yet."""
    page = RouteMaker("Dashboard", Access.PUBLIC, show_error=renderer.error)
    user = access.route_maker(show_error=renderer.error)
    # Its errors are JSON, for a script.
    script = RouteMaker("Dashboard", Access.PUBLIC)
    sign_in, password, invitation = pages.sign_in, "/dashboard/password", "/dashboard/invitations/{token}"
    return [
        page(f"GET {SIGN_IN}", sign_in.show),
        page(f"POST {SIGN_IN}", sign_in.submit, _SENT, *_LIMITED, body=FormIn),
        page("GET /dashboard/code", sign_in.show_code),
        page("POST /dashboard/code", sign_in.submit_code, _SENT, *_LIMITED, body=FormIn),
        script("POST /dashboard/passkey/options", sign_in.passkey_options, None, *_OPTIONS_ERRORS, body=FormIn),
        page("POST /dashboard/passkey", sign_in.submit_passkey, _SENT, *_LIMITED, body=FormIn),
        script(
            "POST /dashboard/code/passkey/options", sign_in.second_passkey_options, None, *_OPTIONS_ERRORS, body=FormIn
        ),
        page("POST /dashboard/code/passkey", sign_in.submit_second_passkey, _SENT, *_LIMITED, body=FormIn),
        user("POST /dashboard/sign-out", access.user_form(sign_in.sign_out), _SENT, *_FORM_ERRORS, body=FormIn),
        page("GET /dashboard/oidc", pages.oidc.start, _SENT, DashboardPageNotFound, RateLimited),
        page("GET /dashboard/oidc/callback", pages.oidc.finish, _SENT, DashboardPageNotFound),
        page(f"GET {password}", sign_in.show_reset),
        page(f"POST {password}", sign_in.ask_for_reset, None, *_LIMITED, body=FormIn),
        page(f"GET {password}/{{token}}", sign_in.show_new_password, None, LinkExpired),
        page(f"POST {password}/{{token}}", sign_in.set_new_password, _SENT, LinkExpired, *_LIMITED, body=FormIn),
        page(f"GET {invitation}", pages.invitation.show, None, LinkExpired),
        page(f"POST {invitation}", pages.invitation.accept, _SENT, LinkExpired, *_LIMITED, body=FormIn),
    ]


def user_routes(pages: DashboardPages, access: PageAccess, renderer: Renderer) -> list[Route]:
    """Pages of a user, outside of any organisation."""
    user = access.route_maker(show_error=renderer.error)
    script = access.route_maker()
    you, options, passkey = pages.you, f"{YOU}/passkeys/options", f"{YOU}/passkeys/{{passkey_id}}"
    revoke = f"{YOU}/tokens/{{token_id}}/revoke"
    options_errors: tuple[type[TonneError], ...] = (PasskeysUnavailable, PasskeyInvalid, SignInTooOld, *_FORM_ERRORS)
    passkey_errors: tuple[type[TonneError], ...] = (PasskeyNotFound, *_FORM_ERRORS)
    forms = {
        f"{YOU}/password": you.replace_password,
        f"{YOU}/second-factor": you.set_up,
        f"{YOU}/second-factor/enable": you.enable,
        f"{YOU}/second-factor/codes": you.renew_codes,
        f"{YOU}/second-factor/disable": you.disable,
        f"{YOU}/passkeys": you.add_passkey,
        f"{YOU}/tokens": you.make_token,
        f"{YOU}/sessions/end": you.end_other_sessions,
        f"{YOU}/sessions/{{session_id}}/end": you.end_session,
    }
    return [
        user("GET /dashboard", access.user_page(you.home), _SENT),
        user(f"GET {YOU}", access.user_page(you.show)),
        script(f"POST {options}", access.user_form(you.passkey_options), None, *options_errors, body=FormIn),
        user(f"GET {passkey}", access.user_page(you.show_passkey), None, PasskeyNotFound),
        user(f"POST {passkey}/rename", access.user_form(you.rename_passkey), _SENT, *passkey_errors, body=FormIn),
        user(
            f"POST {revoke}",
            access.user_form(you.revoke_token, revoke, (YOU,)),
            _SENT,
            PersonalTokenNotFound,
            *_FORM_ERRORS,
            body=FormIn,
        ),
        user(
            f"POST {passkey}/remove",
            access.user_form(you.remove_passkey, f"{passkey}/remove", (YOU, passkey)),
            _SENT,
            *passkey_errors,
            body=FormIn,
        ),
        *(
            user(f"POST {path}", access.user_form(form, path, (YOU,)), _SENT, *_FORM_ERRORS, body=FormIn)
            for path, form in forms.items()
        ),
    ]


def organisation_routes(sections: Sequence[OrganisationSection], access: PageAccess, renderer: Renderer) -> list[Route]:
    """Pages of one organisation, in both modes."""
    user = access.route_maker(show_error=renderer.error)
    routes = []
    for mode in Mode:
        base = organisation_base(mode, "{organisation_id}")
        routes.append(user(f"GET {base}", access.member_page(mode, _first_page), _SENT, DashboardPageNotFound))
        for section in sections:
            errors: tuple[type[TonneError], ...] = (DashboardPageNotFound, RoleRefused, ActAsReadOnly, *section.errors)
            for path, (page, right) in section.pages.items():
                routes.append(user(f"GET {base}{path}", access.member_page(mode, page, right), None, *errors))
            for path, (form, right) in section.forms.items():
                submit = access.member_form(mode, form, right, path=path, pages=section.pages)
                size = section.uploads.get(path, MAX_BODY_BYTES)
                routes.append(
                    user(f"POST {base}{path}", submit, _SENT, *errors, *_FORM_ERRORS, body=FormIn, max_body_bytes=size)
                )
    return routes


def operator_routes(sections: Sequence[OperatorSection], access: PageAccess, renderer: Renderer) -> list[Route]:
    """Pages of the operator, in both modes."""
    user = access.route_maker(show_error=renderer.error)
    first = access.operator_page(Mode.LIVE, _first_operator_page)
    routes = [user("GET /operator", first, _SENT, DashboardPageNotFound)]
    for mode in Mode:
        base = operator_base(mode)
        first = access.operator_page(mode, _first_operator_page)
        routes.append(user(f"GET {base}", first, _SENT, DashboardPageNotFound))
        for section in sections:
            errors: tuple[type[TonneError], ...] = (DashboardPageNotFound, *section.errors)
            for path, page in section.pages.items():
                routes.append(user(f"GET {base}{path}", access.operator_page(mode, page), None, *errors))
            for path, form in section.forms.items():
                submit = access.operator_form(mode, form, path=path, pages=section.pages)
                size = section.uploads.get(path, MAX_BODY_BYTES)
                routes.append(
                    user(f"POST {base}{path}", submit, _SENT, *errors, *_FORM_ERRORS, body=FormIn, max_body_bytes=size)
                )
    return routes


async def _first_page(viewer: MemberViewer) -> Response:
    return see_other(f"{viewer.base}{entries_for(ORGANISATION_MENU, viewer.may)[0].entries[0].path}")


async def _first_operator_page(viewer: OperatorViewer) -> Response:
    return see_other(f"{viewer.base}{OPERATOR_MENU[0].entries[0].path}")


def dashboard_routes(pages: DashboardPages, access: PageAccess, renderer: Renderer) -> list[Route]:
    parts = (pages, access, renderer)
    return [*entrance_routes(*parts), *user_routes(*parts)]
