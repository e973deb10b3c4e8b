"""tonne secrets"""

from typing import NamedTuple

import click

from tonne.apps.cli.database import ACTOR, run_connected
from tonne.apps.cli.output import STATUS_STYLES, Output, ValueColumn, output_options
from tonne.apps.wiring.sealed import ALL_SEALED
from tonne.platform.db.database import Connection
from tonne.platform.keys import secret_key_store as secret_store
from tonne.platform.keys.check_secret_key import check_secret_key, find_unreadable_secrets
from tonne.platform.keys.sealed import (
    Resealed,
    count_secrets,
    give_up_keys,
    reseal_secrets,
    retire_keys,
)
from tonne.platform.keys.secret_box import SecretBox, SecretKeyMissing, create_key_file
from tonne.platform.process.progress import progress
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now


class KeyUse(NamedTuple):
    key_id: str
    role: str
    values: int


COLUMNS: tuple[ValueColumn[KeyUse], ...] = (
    ValueColumn("key_id", lambda use: use.key_id, head="key", show=lambda use: use.key_id or "(no key id)"),
    ValueColumn("configured", lambda use: use.role, styles=STATUS_STYLES),
    ValueColumn("values", lambda use: use.values),
)


@click.group()
def secrets() -> None:
    """Manage the keys that encrypt secrets in the database."""


@secrets.command("status")
@output_options
def status(output: Output) -> None:
    """Show how many values are sealed with which key."""
    output.print_rows(run_connected(_read_status), COLUMNS, empty="No keys.")


@secrets.command("rotate")
def rotate() -> None:
    """Encrypt all values again with the current key.

    Before, set TONNE_SECRET_KEY to the new key and TONNE_SECRET_KEYS_OLD to the previous one, for all processes, and
    restart them. The service can keep running. If the command is interrupted, run it again.
    """
    box, resealed, retired = run_connected(_rotate)
    click.echo(f"{resealed.count} secret(s) encrypted again with key {box.key_id}.")
    if retired:
        click.echo(
            f"No value needs key {' and '.join(retired)} any more. You can remove it from TONNE_SECRET_KEYS_OLD."
        )
    if unreadable := resealed.unreadable:
        raise click.ClickException(
            f"{len(unreadable)} secret(s) cannot be opened: {', '.join(unreadable[:10])}. Add their key to "
            "TONNE_SECRET_KEYS_OLD and run the command again. `tonne secrets status` lists the keys."
        )


@secrets.command("reset")
@click.confirmation_option(prompt="Secrets sealed with a key that is not configured stay unreadable. Continue?")
def reset() -> None:
    """Accept the loss of a key.

    Makes the configured keys the only ones of this database, so that Tonne starts again. Webhooks whose secret was
    sealed with a lost key deliver nothing, and offset links refuse signed queries, until their owners rotate the
    secret. No event is lost. The URLs of checkouts that the API created cannot be read again; create new ones.
    """
    box, given_up, unreadable = run_connected(_reset)
    click.echo(f"This database now uses key {box.key_id}.")
    if given_up:
        click.echo(f"Given up: key {' and '.join(given_up)}.")
    if unreadable:
        click.echo(f"Rotate {len(unreadable)} secret(s), which cannot be opened:")
        for owner_id in unreadable:
            click.echo(f"- {owner_id}")


async def _read_status(connection: Connection, settings: Settings) -> list[KeyUse]:
    try:
        box: SecretBox | None = SecretBox.from_settings(settings)
    except SecretKeyMissing:
        box = None
    counts = dict.fromkeys([*(box.key_ids if box else ()), *await secret_store.list_key_ids(connection)], 0)
    counts |= await count_secrets(connection, ALL_SEALED)
    return [
        KeyUse(key_id, _role(box, key_id), count)
        for key_id, count in sorted(counts.items(), key=lambda entry: (box is None or entry[0] != box.key_id, entry[0]))
    ]


def _role(box: SecretBox | None, key_id: str) -> str:
    if not key_id:
        return "-"
    if box is None or key_id not in box.key_ids:
        return "no"
    return "current" if key_id == box.key_id else "old"


async def _rotate(connection: Connection, settings: Settings) -> tuple[SecretBox, Resealed, list[str]]:
    box = await check_secret_key(connection, settings, ALL_SEALED)
    counts = await count_secrets(connection, ALL_SEALED)
    left = sum(count for key_id, count in counts.items() if key_id != box.key_id)
    with progress("Encrypting secrets", left) as advance:
        resealed = await reseal_secrets(connection, ALL_SEALED, box, actor=ACTOR.actor, clock=utc_now, advance=advance)
    async with connection.transaction():
        retired = await retire_keys(connection, ALL_SEALED, box, by=ACTOR.now())
    return box, resealed, retired


async def _reset(connection: Connection, settings: Settings) -> tuple[SecretBox, list[str], list[str]]:
    try:
        box = SecretBox.from_settings(settings)
    except SecretKeyMissing:
        if settings.database_url:
            raise
        create_key_file(settings)
        box = SecretBox.from_settings(settings)
    async with connection.transaction():
        given_up = await give_up_keys(connection, ALL_SEALED, box, by=ACTOR.now())
        return box, given_up, [secret.id for secret in await find_unreadable_secrets(connection, box, ALL_SEALED)]
