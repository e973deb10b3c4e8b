"""tonne page"""

from pathlib import Path

import click

from tonne.base.clock import to_wire, utc_now
from tonne.cli.accounts import find_account
from tonne.cli.database import plain_failures, run_in_transaction, settings_from_environment
from tonne.cli.show import ACTOR
from tonne.db.pool import Connection
from tonne.sustainability.change import Change, change_page, read_page
from tonne.sustainability.logo import MAX_LOGO_BYTES, logo_of
from tonne.sustainability.model import Logo, Page, Section


@click.group("page")
def page_group() -> None:
    """Sustainability pages: what the public sees of what was retired for an account."""


@page_group.command("show")
@click.argument("account_id")
def show(account_id: str) -> None:
    """Show how the page of an account is set up, and its address."""

    async def work(tx: Connection) -> Page:
        return await read_page(tx, (await find_account(tx, account_id)).scope)

    _print(run_in_transaction(work))


@page_group.command("set")
@click.argument("account_id")
@click.option("--slug", help="The last part of the address. One that the page had before leads to it.")
@click.option("--title", help="The heading of the page.")
@click.option("--description", help="A text below it.")
@click.option(
    "--section",
    "sections",
    type=click.Choice([section.value for section in Section]),
    multiple=True,
    help="What it shows below its total; name every section.",
)
@click.option("--enable/--disable", "enabled", default=None, help="Whether the public sees it.")
@click.option(
    "--logo",
    "logo_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A PNG, JPEG or WebP image, at most 96 KiB.",
)
@click.option("--remove-logo", is_flag=True, help="Show no logo.")
def set_(
    account_id: str,
    *,
    slug: str | None,
    title: str | None,
    description: str | None,
    sections: tuple[str, ...],
    enabled: bool | None,
    logo_file: Path | None,
    remove_logo: bool,
) -> None:
    """Set up or change the page of an account. What is not named stays as it is."""
    if logo_file is not None and remove_logo:
        raise click.UsageError("Give --logo or --remove-logo, not both.")
    with plain_failures():
        change = Change(
            enabled=enabled,
            slug=slug,
            title=title,
            description=description,
            sections=[Section(section) for section in sections] or None,
            logo=None if logo_file is None else _read_logo(logo_file),
            removes_logo=remove_logo,
        )

    async def work(tx: Connection) -> Page:
        scope = (await find_account(tx, account_id)).scope
        return await change_page(tx, scope, change, actor=ACTOR, now=utc_now())

    _print(run_in_transaction(work))


def _read_logo(path: Path) -> Logo:
    """No more of the file than shows that it is too large."""
    with path.open("rb") as file:
        return logo_of(file.read(MAX_LOGO_BYTES + 1))


def _print(page: Page) -> None:
    base_url = settings_from_environment().base_url
    facts = {
        "address": page.address(base_url),
        "enabled": "yes" if page.enabled else "no",
        "slug": page.slug,
        "title": page.title,
        "description": page.description,
        "sections": ", ".join(page.sections),
        "logo": page.logo_address(base_url) or "none",
        "changed": "never" if page.updated_at is None else to_wire(page.updated_at),
    }
    for name, value in facts.items():
        # A description may have several lines: those after the first are set below it.
        click.echo(f"{name:<13}{value}".rstrip().replace("\n", "\n" + " " * 13))
