"""tonne urls"""

from urllib.parse import urlsplit

import click

from tonne.apps.cli.database import ACTOR, run_connected
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.selling.orders.rewrite_urls import rewrite_urls_any_account


@click.group()
def urls() -> None:
    """Move stored addresses after TONNE_PUBLIC_URL has changed."""


@urls.command("rewrite")
@click.argument("old")
@click.argument("new")
@click.option("--dry-run", is_flag=True, help="Only count the orders.")
def rewrite(old: str, new: str, *, dry_run: bool) -> None:
    """Rewrite the URLs in stored orders from OLD to NEW.

    Both are addresses such as https://offsets.example.com; NEW is the present TONNE_PUBLIC_URL. The service can keep
    running, and an interrupted run can be repeated. Events, certificates, credentials and the public log keep their
    bytes: keep the old host redirecting to the new one.
    """
    old, new = _read(old, "OLD"), _read(new, "NEW")

    async def work(connection: Connection, settings: Settings) -> int:
        if new != settings.base_url:
            raise click.ClickException(
                f"The service is at {settings.base_url}, not at {new}. Set TONNE_PUBLIC_URL first, restart all "
                "processes, and run the command again."
            )
        return await rewrite_urls_any_account(connection, old, new, is_dry_run=dry_run, by=ACTOR.now())

    count = run_connected(work)
    click.echo(f"{count:,} order(s) {'contain URLs of' if dry_run else 'rewritten from'} {old}.")


def _read(text: str, name: str) -> str:
    parts = urlsplit(text)
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.query or parts.fragment:
        raise click.BadParameter("expected an address such as https://offsets.example.com", param_hint=name)
    return text.rstrip("/")
