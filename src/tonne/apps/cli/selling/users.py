"""tonne user"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

import click

from tonne.apps.cli.database import ACTOR, run_connected, run_in_transaction
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import EMAIL, EnumChoice
from tonne.platform.db.database import Connection
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now
from tonne.selling.users import store
from tonne.selling.users.create_user import (
    create_user,
    delete_user,
    disable_user,
    enable_user,
    grant_role,
    remove_member,
    require_user,
    set_approver,
)
from tonne.selling.users.links import create_password_link
from tonne.selling.users.model import Role, User
from tonne.selling.users.oidc.oidc_sign_in import unlink_user
from tonne.selling.users.second_factor.second_factor import current_code, reset_second_factors

T = TypeVar("T")
ROLE = EnumChoice(Role)
COLUMNS: tuple[ValueColumn[User], ...] = (
    *columns("email", "name", shrinks=True),
    ValueColumn("operator", lambda u: u.is_operator, show=lambda u: "operator" if u.is_operator else "-"),
    ValueColumn("may_approve", lambda u: u.may_approve, head="approver"),
    ValueColumn("second_factor", lambda u: u.has_second_factor, show=lambda u: "on" if u.has_second_factor else "off"),
    *columns("disabled_at: disabled", "created_at: created"),
    ValueColumn("id", lambda u: u.id, in_table=False),
)


@click.group()
def user() -> None:
    """Manage the people who sign in to the dashboard."""


@user.command("create")
@click.argument("email", type=EMAIL)
@click.argument("name")
@click.option("--org", "organisation_id", help="Make the user a member of this organisation.")
@click.option("--role", type=ROLE, default=Role.OWNER.value, show_default=True, help="The role in the organisation.")
@click.option("--operator", "is_operator", is_flag=True, help="The user runs this service.")
@click.option("--approver", "may_approve", is_flag=True, help="The operator may approve what others requested.")
def create(
    email: str, name: str, organisation_id: str | None, role: Role, *, is_operator: bool, may_approve: bool
) -> None:
    """Create a user and print a link to choose a password.

    Pass the link on to the person. It works once, for two days.
    """
    if organisation_id is None and not is_operator:
        raise click.UsageError("Add --org with the id of an organisation, or --operator.")
    if may_approve and not is_operator:
        raise click.UsageError("Only operators can approve: add --operator.")

    async def create_with_link(connection: Connection, settings: Settings) -> str:
        now = utc_now()
        async with connection.transaction():
            created = await create_user(
                connection,
                email,
                name,
                password_hash=None,
                is_operator=is_operator,
                may_approve=may_approve,
                by=ACTOR.at(now),
            )
            if organisation_id is not None:
                await grant_role(connection, organisation_id, created.id, role, by=ACTOR.at(now))
            return await create_password_link(connection, settings, created, by=ACTOR.at(now))

    click.echo(run_connected(create_with_link))


@user.command("list")
@output_options
def list_(output: Output) -> None:
    """List all users."""
    output.print_rows(run_in_transaction(store.list_users), COLUMNS, empty="No users. Use `tonne user create`.")


@user.command("grant")
@click.argument("email", type=EMAIL)
@click.argument("organisation_id")
@click.argument("role", type=ROLE)
def grant(email: str, organisation_id: str, role: Role) -> None:
    """Make a user a member of an organisation, or change the role."""

    async def change(tx: Connection) -> None:
        found = await require_user(tx, email)
        await grant_role(tx, organisation_id, found.id, role, by=ACTOR.now())

    run_in_transaction(change)
    click.echo(f"{email} is now {role.label} of {organisation_id}.")


@user.command("remove")
@click.argument("email", type=EMAIL)
@click.argument("organisation_id")
def remove(email: str, organisation_id: str) -> None:
    """Remove a user from an organisation."""

    async def change(tx: Connection) -> None:
        found = await require_user(tx, email)
        await remove_member(tx, organisation_id, found.id, by=ACTOR.now())

    run_in_transaction(change)
    click.echo(f"{email} is no longer a member of {organisation_id}.")


@user.command("disable")
@click.argument("email", type=EMAIL)
def disable(email: str) -> None:
    """Disable a user: all sessions end, and signing in is refused."""
    run_in_transaction(_change, email, disable_user)
    click.echo(f"{email} is disabled.")


@user.command("enable")
@click.argument("email", type=EMAIL)
def enable(email: str) -> None:
    """Let a disabled user sign in again."""
    run_in_transaction(_change, email, enable_user)
    click.echo(f"{email} can sign in again.")


@user.command("approver")
@click.argument("email", type=EMAIL)
@click.option("--remove", is_flag=True, help="Take the right away.")
def approver(email: str, *, remove: bool) -> None:
    """Let an operator approve what other people requested."""
    run_in_transaction(_change, email, partial(set_approver, may_approve=not remove))
    click.echo(f"{email} may {'no longer' if remove else 'now'} approve.")


@user.command("delete")
@click.argument("email", type=EMAIL)
@click.confirmation_option(prompt="The user, all memberships and sessions are deleted. Continue?")
def delete(email: str) -> None:
    """Delete a user, for example before a person is erased.

    Entries of the audit log stay, with the id of the user.
    """
    run_in_transaction(_change, email, delete_user)
    click.echo(f"{email} is deleted.")


@user.command("unlink")
@click.argument("email", type=EMAIL)
def unlink(email: str) -> None:
    """Forget a user's account at the sign-in provider.

    The next sign-in there with this verified address links an account again.
    """
    if not run_in_transaction(_change, email, unlink_user):
        raise click.ClickException(f"{email} has no account at a sign-in provider.")
    click.echo(f"{email} has no account at a sign-in provider any more.")


@user.command("code")
@click.argument("email", type=EMAIL)
def code(email: str) -> None:
    """Print the current code of a demo user's authenticator app.

    A code works once and changes every 30 seconds. Codes of other users are never printed.
    """

    async def compute(connection: Connection, settings: Settings) -> str:
        found = await require_user(connection, email)
        if not found.is_demo or not found.totp_enabled:
            raise click.ClickException(f"{email} is no user of the demo with an authenticator app.")
        async with connection.transaction():
            row = await store.lock_totp(connection, found.id)
        secret = SecretBox.from_settings(settings).open(row["totp_box"], found.id)
        return current_code(secret, utc_now(), row["totp_step"])

    click.echo(run_connected(compute))


@user.command("reset")
@click.argument("email", type=EMAIL)
@click.option("--second-factor", is_flag=True, help="Also remove the authenticator app and all passkeys.")
def reset(email: str, *, second_factor: bool) -> None:
    """Print a link to choose a new password.

    The link works once, for two days. With --second-factor, for lost devices, all sessions end at once. Make sure that
    the request really comes from this person.
    """

    async def change(connection: Connection, settings: Settings) -> str:
        now = utc_now()
        async with connection.transaction():
            found = await require_user(connection, email)
            if second_factor:
                await reset_second_factors(connection, found, by=ACTOR.at(now))
            return await create_password_link(connection, settings, found, by=ACTOR.at(now))

    click.echo(run_connected(change))


async def _change(tx: Connection, email: str, change: Callable[..., Awaitable[T]]) -> T:
    return await change(tx, await require_user(tx, email), by=ACTOR.now())
