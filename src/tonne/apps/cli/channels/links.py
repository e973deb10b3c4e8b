"""tonne link"""

from collections.abc import Callable
from typing import Any, TypeVar

import click
from msgspec import Struct

from tonne.apps.cli.database import (
    ACTOR,
    plain_failures,
    run_for_account,
    run_in_transaction,
    settings_from_environment,
)
from tonne.apps.cli.output import (
    STATUS_STYLES,
    Output,
    TimeColumn,
    ValueColumn,
    output_options,
    print_object,
    print_rows,
)
from tonne.apps.cli.parameters import BUNDLE_CHOICE
from tonne.channels.checkout.links.change_link import (
    change_link_any_account,
    read_link_settings,
    require_link_any_account,
    show_link_any_account,
)
from tonne.channels.checkout.links.create_link import create_account_link
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.links.schemas import OffsetLinkIn, OffsetLinkOut, offset_link_out
from tonne.channels.checkout.links.secret import MAX_OVERLAP_S, rotate_link_secret
from tonne.channels.checkout.links.store import list_links
from tonne.platform.db.pool import Connection
from tonne.platform.keys.check_secret_key import check_secret_key
from tonne.platform.settings.settings import Settings
from tonne.platform.values.clock import utc_now
from tonne.platform.values.paging import START
from tonne.platform.values.scope import Scope
from tonne.selling.catalogue.selection import BundleChoiceIn, storable

F = TypeVar("F", bound=Callable[..., Any])

# Options with text values: the option, the setting's name in the API, and the help.
_TEXTS = (
    ("--message", "message", "Text below the title."),
    ("--quantity", "preset_quantity", "Preset amount in tonnes."),
    ("--value", "preset_value", "Preset amount in the account's currency, fee included."),
    ("--min-quantity", "min_quantity", "Smallest amount in tonnes."),
    ("--max-quantity", "max_quantity", "Largest amount in tonnes."),
    ("--min-value", "min_value", "Smallest total in the account's currency."),
    ("--max-value", "max_value", "Largest total in the account's currency."),
    ("--redirect-url", "redirect_url", "Target of the button after the payment. See `tonne org allow-redirect`."),
    ("--redirect-label", "redirect_label", "Name on that button, which reads “Back to NAME”."),
    ("--beneficiary", "beneficiary", "In whose name certificates are issued: `account`, or `customer` to ask people."),
    ("--language", "language", "Language of the page if the browser asks for none of ours, such as de."),
    ("--expires", "expires_at", "When the link closes, such as 2030-12-31T23:59:59Z."),
)


COLUMNS: tuple[ValueColumn[OffsetLink], ...] = (
    ValueColumn("id", lambda link: link.id),
    ValueColumn("state", lambda link: _state(link), styles=STATUS_STYLES),
    ValueColumn("title", lambda link: link.title, shrinks=True),
    TimeColumn("created_at", lambda link: link.created_at, head="created"),
    TimeColumn("expires_at", lambda link: link.expires_at, head="expires"),
    ValueColumn("account_id", lambda link: link.scope.account_id, in_table=False),
)


class ShownLink(Struct, frozen=True):
    out: OffsetLinkOut
    state: str
    takes_cards: bool
    account_id: str
    currency: str


FACTS: tuple[ValueColumn[ShownLink], ...] = (
    ValueColumn("id", lambda link: link.out.id),
    ValueColumn("url", lambda link: link.out.url, head="address"),
    ValueColumn(
        "state",
        lambda link: link.state,
        show=lambda link: link.state if link.takes_cards else f"{link.state}, but no card gateway is set up",
        styles=STATUS_STYLES,
    ),
    ValueColumn("takes_cards", lambda link: link.takes_cards, in_table=False),
    ValueColumn("title", lambda link: link.out.title),
    ValueColumn("message", lambda link: link.out.message),
    ValueColumn(
        "bundles",
        lambda link: [f"{b.bundle_id}={b.percentage or ''}".rstrip("=") for b in link.out.bundle_selection or ()],
        show=lambda link: (
            " ".join(f"{b.bundle_id}={b.percentage or ''}".rstrip("=") for b in link.out.bundle_selection or ())
            or "the account's default bundles"
        ),
    ),
    ValueColumn("preset_quantity", lambda link: link.out.preset_quantity, in_table=False),
    ValueColumn("min_quantity", lambda link: link.out.min_quantity, in_table=False),
    ValueColumn(
        "max_quantity",
        lambda link: link.out.max_quantity,
        head="quantity",
        show=lambda link: _amounts(link.out.preset_quantity, link.out.min_quantity, link.out.max_quantity, "t"),
    ),
    ValueColumn("preset_value", lambda link: link.out.preset_value, in_table=False),
    ValueColumn("min_value", lambda link: link.out.min_value, in_table=False),
    ValueColumn(
        "max_value",
        lambda link: link.out.max_value,
        head="value",
        show=lambda link: _amounts(link.out.preset_value, link.out.min_value, link.out.max_value, link.currency),
    ),
    ValueColumn("currency", lambda link: link.currency, in_table=False),
    ValueColumn(
        "amount_editable",
        lambda link: link.out.amount_editable,
        head="amount",
        show=lambda link: "free" if link.out.amount_editable else "fixed",
    ),
    ValueColumn("redirect_url", lambda link: link.out.redirect_url, head="redirect URL"),
    ValueColumn("redirect_label", lambda link: link.out.redirect_label),
    ValueColumn(
        "expires_at", lambda link: link.out.expires_at, head="expires", show=lambda link: link.out.expires_at or "never"
    ),
    ValueColumn("beneficiary", lambda link: link.out.beneficiary.value, head="certificates for"),
    ValueColumn("language", lambda link: link.out.language),
    ValueColumn("created_at", lambda link: link.out.created_at, head="created"),
    ValueColumn(
        "account_id",
        lambda link: link.account_id,
        head="account",
        show=lambda link: f"{link.account_id} ({link.out.account_type})",
    ),
)


def _settings_options(command: F) -> F:
    decorators = [click.option(option, name, help=text) for option, name, text in _TEXTS]
    decorators += [
        click.option("--fixed/--free", default=None, help="Fix the preset amount, or let people change it."),
        click.option(
            "--bundle", "bundles", type=BUNDLE_CHOICE, multiple=True, help="A bundle on offer. Repeat for more bundles."
        ),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


@click.group("link")
def link_group() -> None:
    """Manage offset links, the public payment pages of an account."""


@link_group.command("create")
@click.option("--account", "account_id", required=True, help="The account that sells through the link.")
@click.option("--title", required=True, help="Headline of the page.")
@click.option("--show-secret", is_flag=True, help="Also print the secret that signs queries.")
@_settings_options
def create(account_id: str, show_secret: bool, **options: Any) -> None:
    """Create a link and print its public address.

    With --show-secret, a second line has the secret that signs the link's queries. It cannot be shown later: `tonne
    link rotate-secret` creates a new one.
    """
    with plain_failures():
        settings = settings_from_environment()
        body = read_link_settings(_settings(options))
    link, secret = run_for_account(account_id, _create, body, settings=settings)
    click.echo(link.address(settings.base_url))
    if show_secret:
        click.echo(secret)


async def _create(tx: Connection, scope: Scope, body: OffsetLinkIn, *, settings: Settings) -> tuple[OffsetLink, str]:
    await check_secret_key(tx, settings)
    return await create_account_link(tx, scope, body, settings=settings, actor=ACTOR, now=utc_now())


@link_group.command("rotate-secret")
@click.argument("link_id")
@click.option(
    "--overlap",
    "overlap_seconds",
    type=click.IntRange(0, MAX_OVERLAP_S),
    default=86_400,
    show_default=True,
    help="For how many seconds queries signed with the old secret stay valid.",
)
def rotate_secret(link_id: str, overlap_seconds: int) -> None:
    """Replace the secret of a link and print the new one.

    The secret signs the link's queries.
    """
    settings = settings_from_environment()
    click.echo(run_in_transaction(_rotate, link_id, overlap_seconds, settings=settings))


async def _rotate(tx: Connection, link_id: str, overlap_seconds: int, *, settings: Settings) -> str:
    link, box = await require_link_any_account(tx, link_id), await check_secret_key(tx, settings)
    return await rotate_link_secret(tx, link, box, overlap_seconds=overlap_seconds, actor=ACTOR, now=utc_now())


@link_group.command("list")
@click.option("--account", "account_id", required=True, help="The account whose links to list.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="Number of links.")
@output_options
def list_(account_id: str, limit: int, output: Output) -> None:
    """List the links of an account, newest first."""
    found = run_for_account(account_id, list_links, START, limit)
    print_rows(found, COLUMNS, output, empty="No links. Create one with `tonne link create`.")


@link_group.command("show")
@click.argument("link_id")
@output_options
def show(link_id: str, output: Output) -> None:
    """Show the settings and the public address of a link."""
    settings = settings_from_environment()
    link, owner = run_in_transaction(show_link_any_account, link_id, settings=settings)
    out = offset_link_out(link, owner.currency, settings.base_url)
    shown = ShownLink(out, _state(link), owner.takes_cards, link.scope.account_id, owner.currency)
    print_object(shown, FACTS, output)


@link_group.command("update")
@click.argument("link_id")
@click.option("--title", help="Headline of the page.")
@_settings_options
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
    settings = settings_from_environment()
    return run_in_transaction(change_link_any_account, link_id, changes, settings=settings, actor=ACTOR, now=utc_now())


def _settings(options: dict[str, Any]) -> dict[str, Any]:
    """The given options as settings of the API. Empty ones become null, which clears the setting."""
    fixed: bool | None = options.pop("fixed")
    bundles: tuple[BundleChoiceIn, ...] = options.pop("bundles")
    settings = {name: value or None for name, value in options.items() if value is not None}
    if fixed is not None:
        settings["amount_editable"] = not fixed
    if bundles:
        settings["bundle_selection"] = storable([choice for choice in bundles if choice.bundle_id]) or None
    return settings


def _print_address(link: OffsetLink) -> None:
    click.echo(link.address(settings_from_environment().base_url))


def _state(link: OffsetLink) -> str:
    if not link.enabled:
        return "disabled"
    return "open" if link.is_open(utc_now()) else "expired"


def _amounts(preset: str | None, least: str | None, most: str | None, unit: str) -> str:
    named = (("preset", preset), ("at least", least), ("at most", most))
    return ", ".join(f"{name} {amount} {unit}" for name, amount in named if amount is not None) or "-"
