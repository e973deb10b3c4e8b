"""tonne link"""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tonne.apps.cli import database
from tonne.apps.cli.output import STATUS_STYLES, Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import BUNDLE_CHOICE, columns_of, given, options_of
from tonne.apps.wiring.sealed import ALL_SEALED
from tonne.channels.checkout.links.model import MAX_OVERLAP_S, OffsetLink
from tonne.channels.checkout.links.schemas import OffsetLinkIn, OffsetLinkOut, offset_link_out
from tonne.channels.checkout.links.settings import (
    change_link_any_account,
    create_account_link,
    require_link_any_account,
    show_link_any_account,
)
from tonne.channels.checkout.links.signed_query import rotate_link_secret
from tonne.channels.checkout.links.store import list_links
from tonne.platform.db.database import Connection
from tonne.platform.http.json_body import read_some, read_values
from tonne.platform.keys.check_secret_key import check_secret_key
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Scope, same_named, utc_now
from tonne.platform.values.paging import START
from tonne.selling.catalogue.selection import BundleChoiceIn, storable

F = TypeVar("F", bound=Callable[..., Any])

COLUMNS: tuple[ValueColumn[OffsetLink], ...] = (
    ValueColumn("id", lambda link: link.id),
    ValueColumn("state", lambda link: _state(link), styles=STATUS_STYLES),
    ValueColumn("title", lambda link: link.title, shrinks=True),
    *columns("created_at: created", "expires_at: expires"),
    ValueColumn("account_id", lambda link: link.scope.account_id, in_table=False),
)


class ShownLink(OffsetLinkOut):
    state: str
    takes_cards: bool
    account_id: str

    @property
    def bundles(self) -> list[str]:
        return [f"{b.bundle_id}={b.percentage or ''}".rstrip("=") for b in self.bundle_selection or ()]


FACTS: tuple[ValueColumn[ShownLink], ...] = columns_of(
    ShownLink,
    first=(
        *columns("id", "url: address"),
        ValueColumn(
            "state",
            lambda link: link.state,
            show=lambda link: link.state if link.takes_cards else f"{link.state}, but no card gateway is set up",
            styles=STATUS_STYLES,
        ),
        ValueColumn("takes_cards", lambda link: link.takes_cards, in_table=False),
        *columns("title", "message"),
        ValueColumn(
            "bundles",
            lambda link: link.bundles,
            show=lambda link: " ".join(link.bundles) or "the account's default bundles",
        ),
        *columns("preset_quantity", "min_quantity", in_table=False),
        ValueColumn(
            "max_quantity",
            lambda link: link.max_quantity,
            head="quantity",
            show=lambda link: _amounts(link.preset_quantity, link.min_quantity, link.max_quantity, "t"),
        ),
        *columns("preset_value", "min_value", in_table=False),
        ValueColumn(
            "max_value",
            lambda link: link.max_value,
            head="value",
            show=lambda link: _amounts(link.preset_value, link.min_value, link.max_value, link.currency),
        ),
        ValueColumn("currency", lambda link: link.currency, in_table=False),
        ValueColumn(
            "amount_editable",
            lambda link: link.amount_editable,
            head="amount",
            show=lambda link: "free" if link.amount_editable else "fixed",
        ),
    ),
    expires_at=ValueColumn(
        "expires_at", lambda link: link.expires_at, head="expires", show=lambda link: link.expires_at or "never"
    ),
    last=(
        ValueColumn("created_at", lambda link: link.created_at, head="created"),
        ValueColumn(
            "account_id",
            lambda link: link.account_id,
            head="account",
            show=lambda link: f"{link.account_id} ({link.account_type})",
        ),
    ),
    without=("bundle_selection", "enabled", "account_type"),
)


def _further_options(command: F) -> F:
    for decorate in (
        click.option(
            "--bundle", "bundles", type=BUNDLE_CHOICE, multiple=True, help="A bundle on offer. Repeat for more bundles."
        ),
        click.option("--fixed/--free", default=None, help="Fix the preset amount, or let people change it."),
    ):
        command = decorate(command)
    return command


@click.group("link")
def link_group() -> None:
    """Manage offset links, the public payment pages of an account."""


@link_group.command("create")
@click.option("--account", "account_id", required=True, help="The account that sells through the link.")
@click.option("--show-secret", is_flag=True, help="Also print the secret that signs queries.")
@options_of(OffsetLinkIn)
@_further_options
def create(account_id: str, show_secret: bool, **options: Any) -> None:
    """Create a link and print its public address.

    With --show-secret, a second line has the secret that signs the link's queries. It cannot be shown later: `tonne
    link rotate-secret` creates a new one.
    """
    with database.plain_failures():
        settings = database.settings_from_environment()
        body = read_values(_settings(options), OffsetLinkIn)
    link, secret = database.run_for_account(account_id, _create, body, settings=settings)
    click.echo(link.address(settings.base_url))
    if show_secret:
        click.echo(secret)


async def _create(tx: Connection, scope: Scope, body: OffsetLinkIn, *, settings: Settings) -> tuple[OffsetLink, str]:
    await check_secret_key(tx, settings, ALL_SEALED)
    return await create_account_link(tx, scope, body, settings=settings, by=database.ACTOR.now())


@link_group.command("rotate-secret")
@click.argument("link_id")
@click.option(
    "--overlap-s",
    type=click.IntRange(0, MAX_OVERLAP_S),
    default=86_400,
    show_default=True,
    help="For how many seconds queries signed with the old secret stay valid.",
)
def rotate_secret(link_id: str, overlap_s: int) -> None:
    """Replace the secret of a link and print the new one.

    The secret signs the link's queries.
    """
    settings = database.settings_from_environment()
    click.echo(database.run_in_transaction(_rotate, link_id, overlap_s, settings=settings))


async def _rotate(tx: Connection, link_id: str, overlap_s: int, *, settings: Settings) -> str:
    link, box = await require_link_any_account(tx, link_id), await check_secret_key(tx, settings, ALL_SEALED)
    return await rotate_link_secret(tx, link, box, overlap_s=overlap_s, by=database.ACTOR.now())


@link_group.command("list")
@click.option("--account", "account_id", required=True, help="The account whose links to list.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Number of links.")
@output_options
def list_(account_id: str, limit: int, output: Output) -> None:
    """List the links of an account, newest first."""
    found = database.run_for_account(account_id, list_links, START, limit)
    output.print_rows(found, COLUMNS, empty="No links. Create one with `tonne link create`.")


@link_group.command("show")
@click.argument("link_id")
@output_options
def show(link_id: str, output: Output) -> None:
    """Show the settings and the public address of a link."""
    settings = database.settings_from_environment()
    link, owner = database.run_in_transaction(show_link_any_account, link_id, settings=settings)
    out = offset_link_out(link, owner.currency, settings.base_url)
    others = {"state": _state(link), "takes_cards": owner.takes_cards, "account_id": link.scope.account_id}
    shown = same_named(ShownLink, out, **others)
    output.print_object(shown, FACTS)


@link_group.command("update")
@click.argument("link_id")
@options_of(OffsetLinkIn, is_change=True, can_clear=True)
@_further_options
def update(link_id: str, **options: Any) -> None:
    """Change the given settings of a link and print its address.

    Other settings keep their value. An empty value ("") clears a setting.
    """
    _print_address(_change(link_id, _settings(options)))


@link_group.command("disable")
@click.argument("link_id")
def disable(link_id: str) -> None:
    """Close a link. Nobody can pay there until you enable it again."""
    _change(link_id, {"enabled": False})
    click.echo(f"{link_id} is disabled.")


@link_group.command("enable")
@click.argument("link_id")
def enable(link_id: str) -> None:
    """Open a link again and print its address."""
    _print_address(_change(link_id, {"enabled": True}))


def _change(link_id: str, changes: dict[str, Any]) -> OffsetLink:
    with database.plain_failures():
        settings = database.settings_from_environment()
        values = read_some(changes, OffsetLinkIn)
    return database.run_in_transaction(
        change_link_any_account, link_id, values, settings=settings, by=database.ACTOR.now()
    )


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """The given options as settings of the API."""
    fixed: bool | None = options.pop("fixed")
    bundles: tuple[BundleChoiceIn, ...] = options.pop("bundles")
    settings = given(options)
    if fixed is not None:
        settings["amount_editable"] = not fixed
    if bundles:
        settings["bundle_selection"] = storable([choice for choice in bundles if choice.bundle_id]) or None
    return settings


def _print_address(link: OffsetLink) -> None:
    click.echo(link.address(database.settings_from_environment().base_url))


def _state(link: OffsetLink) -> str:
    if not link.enabled:
        return "disabled"
    return "open" if link.is_open(utc_now()) else "expired"


def _amounts(preset: str | None, least: str | None, most: str | None, unit: str) -> str:
    named = (("preset", preset), ("at least", least), ("at most", most))
    return ", ".join(f"{name} {amount} {unit}" for name, amount in named if amount is not None) or "-"
