"""tonne login, tonne logout, and approvals on the command line"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

import click

from tonne.apps.cli.database import ACTOR, run_connected
from tonne.apps.cli.operator import Login, login_file, write_login
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, utc_now
from tonne.selling.users.approvals import Approver, approver_by_token
from tonne.selling.users.personal_tokens import TokenOwner, find_by_token

T = TypeVar("T")


@click.command()
def login() -> None:
    """Run commands as yourself.

    It asks for a personal token, which you make on the page You of the dashboard, and keeps it in a file that only you
    may read. Commands are then recorded with your user.
    """
    login_file().unlink(missing_ok=True)
    token = click.prompt("Personal token", hide_input=True).strip()

    async def find(connection: Connection, _: Settings) -> TokenOwner | None:
        return await find_by_token(connection, token, utc_now())

    found = run_connected(find)
    if found is None:
        raise click.ClickException("This token is not valid. Make one on the page You of the dashboard.")
    write_login(Login(found.user.id, token))
    click.echo(f"You are {found.user.name} <{found.user.email}>. The token is in {login_file()}.")


@click.command()
def logout() -> None:
    """Forget the personal token.

    It stays valid until it expires or you revoke it on the page You of the dashboard.
    """
    login_file().unlink(missing_ok=True)
    click.echo("Commands run without a login.")


def approve_or_link(
    find_page: Callable[[Connection], Awaitable[tuple[Mode, str]]],
    work: Callable[[Connection, Approver], Awaitable[T]],
) -> T | None:
    """Do the work with the personal token if the settings allow it. Otherwise print the link of the page that does."""

    async def choose(connection: Connection, settings: Settings) -> T | None:
        known = ACTOR.login
        async with connection.transaction():
            mode, page = await find_page(connection)
            if settings.approvals_by == "token" and known is not None:
                by = ACTOR.now()
                approver = await approver_by_token(connection, known.token, by.actor, settings=settings, now=by.at)
                return await work(connection, approver)
        click.echo(f"Approve it in the browser: {settings.base_url}/operator/{mode}/{page}")
        return None

    return run_connected(choose)
