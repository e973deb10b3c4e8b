"""tonne page"""

from pathlib import Path

import click

from tonne.apps.cli.database import ACTOR, plain_failures, run_for_account, settings_from_environment
from tonne.apps.cli.output import Output, ValueColumn, columns, detect_output, output_options
from tonne.apps.cli.parameters import EnumChoice
from tonne.channels.public_pages.change_page import PageChange, change_page, read_page
from tonne.channels.public_pages.model import PageSection, SustainabilityPage
from tonne.platform.values.context import to_wire
from tonne.selling.accounts.logos.logo import MAX_LOGO_BYTES, logo_of
from tonne.selling.accounts.logos.store import Logo


@click.group("page")
def page_group() -> None:
    """Manage the public Sustainability pages of accounts."""


@page_group.command("show")
@click.argument("account_id")
@output_options
def show(account_id: str, output: Output) -> None:
    """Show the settings and the address of an account's page."""
    _print(run_for_account(account_id, read_page), output)


@page_group.command("set")
@click.argument("account_id")
@click.option("--slug", help="Last part of the address. Earlier slugs redirect to the new one.")
@click.option("--title", help="Heading of the page.")
@click.option("--description", help="Text below the heading.")
@click.option(
    "--section",
    "sections",
    type=EnumChoice(PageSection),
    multiple=True,
    help="A section to show. Repeat for every section.",
)
@click.option("--enable/--disable", "enabled", default=None, help="Publish the page, or take it offline.")
@click.option(
    "--logo",
    "logo_file",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="PNG, JPEG or WebP image of at most 96 KiB.",
)
@click.option("--remove-logo", is_flag=True, help="Remove the logo.")
def set_(
    account_id: str,
    *,
    slug: str | None,
    title: str | None,
    description: str | None,
    sections: tuple[PageSection, ...],
    enabled: bool | None,
    logo_file: Path | None,
    remove_logo: bool,
) -> None:
    """Set up or change an account's page.

    Settings that you leave out keep their value.
    """
    if logo_file is not None and remove_logo:
        raise click.UsageError("Use either --logo or --remove-logo, not both.")
    with plain_failures():
        change = PageChange(
            enabled=enabled,
            slug=slug,
            title=title,
            description=description,
            sections=list(sections) or None,
            logo=None if logo_file is None else _read_logo(logo_file),
            removes_logo=remove_logo,
        )
    _print(run_for_account(account_id, change_page, change, by=ACTOR.now()), detect_output())


def _read_logo(path: Path) -> Logo:
    """Reads one byte more than allowed, which is enough to reject a file that is too large."""
    with path.open("rb") as file:
        return logo_of(file.read(MAX_LOGO_BYTES + 1))


def _print(page: SustainabilityPage, output: Output) -> None:
    base_url = settings_from_environment().base_url
    facts: tuple[ValueColumn[SustainabilityPage], ...] = (
        ValueColumn("address", lambda p: p.address(base_url)),
        *columns("enabled", "slug", "title"),
        ValueColumn("description", lambda p: p.description, show=lambda p: p.description, has_lines=True),
        ValueColumn("sections", lambda p: [section.value for section in p.sections]),
        ValueColumn("logo", lambda p: p.logo_address(base_url), show=lambda p: p.logo_address(base_url) or "none"),
        ValueColumn("updated_at", lambda p: p.updated_at, head="changed", show=_changed),
    )
    output.print_object(page, facts)


def _changed(page: SustainabilityPage) -> str:
    return "never" if page.updated_at is None else to_wire(page.updated_at)
