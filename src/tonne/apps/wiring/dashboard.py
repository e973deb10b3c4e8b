"""Constructs the pages of the dashboard."""

from msgspec import Struct

from tonne.apps.dashboard.layout import PageLayout
from tonne.apps.dashboard.routes import DashboardPages
from tonne.apps.dashboard.sign_in_page import OidcPage, SignInPage
from tonne.apps.dashboard.viewer import PageAccess
from tonne.apps.dashboard.you_page import InvitationPage, YouPage
from tonne.platform.db.database import Database
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock
from tonne.platform.web.render import FormGuard, Renderer
from tonne.selling.users.links import ChangePassword
from tonne.selling.users.oidc.oidc_provider import OidcGateway
from tonne.selling.users.oidc.oidc_sign_in import OidcSignIn
from tonne.selling.users.passwords import Passwords
from tonne.selling.users.second_factor.passkeys import Passkeys
from tonne.selling.users.second_factor.second_factor import SecondFactor
from tonne.selling.users.sign_in import Sessions, SignIn


class Dashboard(Struct, frozen=True):
    pages: DashboardPages
    access: PageAccess
    layout: PageLayout


def open_dashboard(
    database: Database, renderer: Renderer, guard: FormGuard, box: SecretBox, *, clock: Clock, settings: Settings
) -> Dashboard:
    sessions, passwords = Sessions(database, settings, clock, box), Passwords()
    passkeys = Passkeys(database, settings, clock)
    sign_in = SignIn(database, sessions, passwords, box, passkeys=passkeys, clock=clock)
    change_password = ChangePassword(database, passwords, clock=clock, settings=settings)
    layout = PageLayout(renderer, guard)
    entrance = SignInPage(
        database,
        renderer,
        guard,
        sessions=sessions,
        sign_in=sign_in,
        change_password=change_password,
        passkey_domain=passkeys.domain,
        oidc_name=settings.oidc_name if settings.oidc_issuer else "",
    )
    pages = DashboardPages(
        sign_in=entrance,
        invitation=InvitationPage(database, renderer, guard, sessions=sessions, passwords=passwords, clock=clock),
        you=YouPage(
            database,
            layout,
            sessions=sessions,
            sign_in=sign_in,
            second_factor=SecondFactor(box, settings, clock),
            passkeys=passkeys,
            change_password=change_password,
        ),
        oidc=OidcPage(
            _oidc_gateway(settings, clock),
            sign_in,
            OidcSignIn(database, sessions, clock=clock, settings=settings),
            box,
            entrance=entrance,
            clock=clock,
            settings=settings,
        ),
    )
    return Dashboard(pages, PageAccess(database, sessions, guard, settings), layout)


def _oidc_gateway(settings: Settings, clock: Clock) -> OidcGateway | None:
    if not settings.oidc_issuer:
        return None
    # Imported only if it is used: the library takes time and memory.
    from tonne.selling.users.oidc.oidc_provider import OidcProvider  # noqa: PLC0415

    return OidcProvider(settings, clock)
