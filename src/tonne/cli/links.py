"""tonne link"""

from collections.abc import Callable
from typing import Any, TypeVar

import click

from tonne.base.clock import utc_now
from tonne.base.paging import START
from tonne.base.scope import Scope
from tonne.base.settings import Settings
from tonne.catalog.selection import BundleChoiceIn, storable
from tonne.checkout.change_link import (
    change_link_any_account,
    read_link_settings,
    require_link_any_account,
    show_link_any_account,
)
from tonne.checkout.create_link import create_account_link
from tonne.checkout.link_model import OffsetLink
from tonne.checkout.link_schemas import OffsetLinkIn, offset_link_out
from tonne.checkout.link_secret import MAX_OVERLAP_S, rotate_link_secret
from tonne.checkout.link_store import list_links
from tonne.cli.database import (
    ACTOR,
    plain_failures,
    run_for_account,
    run_in_transaction,
    settings_from_environment,
)
from tonne.cli.output import print_facts, print_table
from tonne.cli.parameters import BUNDLE_CHOICE
from tonne.db.pool import Connection
from tonne.webhooks.check_secret_key import check_secret_key

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
    ("--expires", "expires_at", "When the link closes, such as 2030-12-31T23:59:59Z."),
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
def list_(account_id: str, limit: int) -> None:
    """List the links of an account, newest first."""
    found = run_for_account(account_id, list_links, START, limit)
    print_table(("id", "state", "title"), [(link.id, _state(link), link.title) for link in found])


@link_group.command("show")
@click.argument("link_id")
def show(link_id: str) -> None:
    """Show the settings and the public address of a link."""
    settings = settings_from_environment()
    link, owner = run_in_transaction(show_link_any_account, link_id, settings=settings)
    currency = owner.currency
    out = offset_link_out(link, currency, settings.base_url)
    bundles = [f"{choice.bundle_id}={choice.percentage or ''}".rstrip("=") for choice in out.bundle_selection or ()]
    print_facts(
        {
            "id": out.id,
            "address": out.url,
            "state": _state(link) if owner.takes_cards else f"{_state(link)}, but no card gateway is set up",
            "title": out.title,
            "message": out.message or "-",
            "bundles": " ".join(bundles) or "the account's default bundles",
            "quantity": _amounts(out.preset_quantity, out.min_quantity, out.max_quantity, "t"),
            "value": _amounts(out.preset_value, out.min_value, out.max_value, currency),
            "amount": "free" if out.amount_editable else "fixed",
            "redirect URL": out.redirect_url or "-",
            "redirect label": out.redirect_label or "-",
            "expires": out.expires_at or "never",
            "created": out.created_at,
            "account": f"{link.scope.account_id} ({out.account_type})",
        }
    )


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
