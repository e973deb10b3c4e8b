"""tonne link"""

import json
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import click
import msgspec

from tonne.base.clock import utc_now
from tonne.base.errors import Invalid
from tonne.base.paging import START
from tonne.catalog.selection import storable
from tonne.catalog.store import load_catalogue
from tonne.checkout import link_store as store
from tonne.checkout.link_errors import OffsetLinkNotFound
from tonne.checkout.link_model import OffsetLink
from tonne.checkout.link_schemas import OffsetLinkIn, OffsetLinkOut, offset_link_out
from tonne.checkout.links import Shop, create_link, replace_link, require
from tonne.cli.accounts import find_account
from tonne.cli.database import run_in_transaction, settings_from_environment
from tonne.cli.show import ACTOR, print_table, read_selection
from tonne.db.pool import Connection
from tonne.http.json_body import decode_json, read

F = TypeVar("F", bound=Callable[..., Any])

# Option, the setting of the interface that it fills, and its help.
_TEXTS = (
    ("--message", "message", "Shown below the title."),
    ("--quantity", "preset_quantity", "What the form starts with, in tonnes."),
    ("--value", "preset_value", "What the form starts with, in the account's currency, fee included."),
    ("--min-quantity", "min_quantity", "The least that may be chosen, in tonnes."),
    ("--max-quantity", "max_quantity", "The most that may be chosen, in tonnes."),
    ("--min-value", "min_value", "The least that may be paid, in the account's currency."),
    ("--max-value", "max_value", "The most that may be paid, in the account's currency."),
    ("--redirect-url", "redirect_url", "Where the button after the payment leads; see `tonne org allow-redirect`."),
    ("--redirect-label", "redirect_label", "What that button names: Back to ..."),
    ("--expires", "expires_at", "From when on the link is closed, such as 2030-12-31T23:59:59Z."),
)
# Options that are no setting as they stand.
_SPECIAL = {"fixed", "bundles", "enabled"}


def _settings_options(command: F) -> F:
    decorators = [click.option(option, name, help=text) for option, name, text in _TEXTS]
    decorators += [
        click.option("--fixed/--free", default=None, help="The preset amount is all there is, or a suggestion."),
        click.option("--bundle", "bundles", multiple=True, help="ID or ID=PERCENTAGE of a bundle on offer; repeat it."),
    ]
    for decorate in reversed(decorators):
        command = decorate(command)
    return command


@click.group("link")
def link_group() -> None:
    """Offset links: public addresses at which anybody may pay for an order of an account."""


@link_group.command("create")
@click.option("--account", "account_id", required=True, help="Whose orders are paid there.")
@click.option("--title", required=True, help="The headline of the page.")
@_settings_options
def create(account_id: str, **options: Any) -> None:
    """Make a link and print its public address."""

    async def work(tx: Connection) -> str:
        shop = await _shop(tx, account_id)
        link = await create_link(tx, shop, _read({}, options), actor=ACTOR, now=utc_now())
        return _out(link, shop).url

    click.echo(_run(work))


@link_group.command("list")
@click.option("--account", "account_id", required=True, help="Whose links.")
@click.option("--limit", type=click.IntRange(1, 10_000), default=100, show_default=True, help="How many.")
def list_(account_id: str, limit: int) -> None:
    """List an account's links, the newest first."""

    async def work(tx: Connection) -> list[OffsetLink]:
        found = await find_account(tx, account_id)
        return await store.list_links(tx, found.scope, START, limit)

    rows = [(link.id, _state(link), _plain(link.title)) for link in run_in_transaction(work)]
    print_table(("id", "state", "title"), rows)


@link_group.command("show")
@click.argument("link_id")
def show(link_id: str) -> None:
    """Show a link with all its settings and its public address."""

    async def work(tx: Connection) -> tuple[OffsetLink, OffsetLinkOut]:
        link = await _find(tx, link_id)
        return link, _out(link, await _shop(tx, link.scope.account_id))

    link, out = run_in_transaction(work)
    bundles = [
        choice.bundle_id + (f"={choice.percentage}" if choice.percentage else "")
        for choice in out.bundle_selection or ()
    ]
    facts = [
        ("id", out.id),
        ("address", out.url),
        ("state", _state(link)),
        ("title", _plain(out.title)),
        ("message", _plain(out.message) or "-"),
        ("bundles", " ".join(bundles) or "the account's selection"),
        ("quantity", _amounts(out.preset_quantity, out.min_quantity, out.max_quantity, "t")),
        ("value", _amounts(out.preset_value, out.min_value, out.max_value, out.currency)),
        ("amount", "free" if out.amount_editable else "fixed"),
        ("redirect URL", out.redirect_url or "-"),
        ("redirect label", _plain(out.redirect_label or "-")),
        ("expires", out.expires_at or "never"),
        ("created", out.created_at),
        ("account", f"{link.scope.account_id} ({out.account_type})"),
    ]
    for name, value in facts:
        click.echo(f"{name:<16}{value}")


@link_group.command("update")
@click.argument("link_id")
@click.option("--title", help="The headline of the page.")
@_settings_options
def update(link_id: str, **options: Any) -> None:
    """Change the settings that are given; the others stay, and an empty one ("") is cleared. Prints the address."""
    click.echo(_run(lambda tx: _change(tx, link_id, options)))


@link_group.command("disable")
@click.argument("link_id")
def disable(link_id: str) -> None:
    """Close a link: nobody can pay there until it is enabled again."""
    _run(lambda tx: _change(tx, link_id, {"enabled": False}))


@link_group.command("enable")
@click.argument("link_id")
def enable(link_id: str) -> None:
    """Open a link again. Prints its address."""
    click.echo(_run(lambda tx: _change(tx, link_id, {"enabled": True})))


async def _change(tx: Connection, link_id: str, options: dict[str, Any]) -> str:
    scope = (await _find(tx, link_id)).scope
    shop, old = await _shop(tx, scope.account_id), await require(tx, scope, link_id)
    now_set = msgspec.to_builtins(_out(old, shop))
    body = _read({name: now_set[name] for name in OffsetLinkIn.__struct_fields__}, options)
    return _out(await replace_link(tx, shop, old, body, actor=ACTOR, now=utc_now()), shop).url


def _read(now_set: dict[str, Any], options: dict[str, Any]) -> OffsetLinkIn:
    """What was set, changed by what is given, judged like a request to the API. What is empty is cleared."""
    given = {name: value or None for name, value in options.items() if value is not None and name not in _SPECIAL}
    if options.get("enabled") is not None:
        given["enabled"] = options["enabled"]
    if options.get("fixed") is not None:
        given["amount_editable"] = not options["fixed"]
    if options.get("bundles"):
        words = [word for word in options["bundles"] if word]
        given["bundle_selection"] = storable(read_selection(words)) if words else None
    # There is one preset: the other makes way for it.
    for one, other in (("preset_quantity", "preset_value"), ("preset_value", "preset_quantity")):
        if given.get(one) and other not in given:
            given[other] = None
    return read(decode_json(json.dumps({**now_set, **given}).encode()), OffsetLinkIn)


def _run(work: Callable[[Connection], Awaitable[str]]) -> str:
    """All faults of the settings in one line, not only the first."""

    async def telling(tx: Connection) -> str:
        try:
            return await work(tx)
        except Invalid as error:
            raise click.ClickException(" ".join(fault.message for fault in error.faults)) from error

    return run_in_transaction(telling)


async def _shop(tx: Connection, account_id: str) -> Shop:
    found = await find_account(tx, account_id)
    return Shop(found.scope, found.currency, await load_catalogue(tx, found.scope.mode, ""))


async def _find(tx: Connection, link_id: str) -> OffsetLink:
    link = await store.find_link_any_account(tx, link_id)
    if link is None:
        raise OffsetLinkNotFound("There is no such offset link: `tonne link list` shows an account's.")
    return link


def _out(link: OffsetLink, shop: Shop) -> OffsetLinkOut:
    return offset_link_out(link, shop.currency, settings_from_environment().base_url)


def _state(link: OffsetLink) -> str:
    if not link.enabled:
        return "disabled"
    return "open" if link.is_open(utc_now()) else "expired"


def _amounts(preset: str | None, least: str | None, most: str | None, unit: str) -> str:
    named = (("preset", preset), ("at least", least), ("at most", most))
    return ", ".join(f"{name} {amount} {unit}" for name, amount in named if amount is not None) or "-"


def _plain(text: str) -> str:
    """Harmless for a terminal, whoever wrote it."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
