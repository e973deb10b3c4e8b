"""tonne signing-keys"""

from datetime import datetime

import click

from tonne.apps.cli.database import ACTOR, run_connected, run_in_transaction
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import PAST, EnumChoice
from tonne.platform.db.database import Connection
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.keys.signing.key_store import list_signing_keys
from tonne.platform.keys.signing.keys import retire_key, revoke_key, rotate_key
from tonne.platform.keys.signing.model import KeyPurpose, KeyRecord
from tonne.platform.keys.signing.operator_key import has_outside_key
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now

COLUMNS: tuple[ValueColumn[KeyRecord], ...] = (
    *columns("id", "purpose", "created_at: created", "retired_at: retired", "revoked_from"),
    ValueColumn("public", lambda key: key.public, in_table=False),
)


@click.group("signing-keys")
def signing_keys() -> None:
    """Manage the keys that sign documents, credentials and the log."""


@signing_keys.command("list")
@output_options
def list_(output: Output) -> None:
    """List all keys. Without a key, the first signature creates one."""

    async def work(tx: Connection) -> list[KeyRecord]:
        return [key for purpose in KeyPurpose for key in await list_signing_keys(tx, purpose)]

    output.print_rows(run_in_transaction(work), COLUMNS, empty="No keys yet.")


@signing_keys.command("rotate")
@click.argument("purpose", type=EnumChoice(KeyPurpose))
def rotate(purpose: KeyPurpose) -> None:
    """Create a new key in the database, and retire the current one.

    What the old key has signed stays valid. The service can keep running. For documents this is refused while the
    settings name a key: change the settings instead, and restart Tonne.
    """

    async def work(connection: Connection, settings: Settings) -> tuple[KeyRecord, str | None]:
        if purpose is KeyPurpose.DOCUMENT and has_outside_key(settings):
            raise click.ClickException(
                "The settings name the key for documents: change TONNE_DOCUMENT_KEY_FILE or TONNE_DOCUMENT_PKCS11_KEY "
                "and the certificate, and restart Tonne. The old key is retired then."
            )
        box = SecretBox.from_settings(settings)
        async with connection.transaction():
            return await rotate_key(connection, purpose, box, settings.seller_name, actor=ACTOR, now=utc_now())

    made, replaced = run_connected(work)
    click.echo(f"Key {made.id} signs from now on.")
    if replaced is not None:
        click.echo(f"Key {replaced} is retired. What it has signed stays valid.")


@signing_keys.command("retire")
@click.argument("key_id")
def retire(key_id: str) -> None:
    """Stop using a key. What it has signed stays valid, and the next signature creates a new key."""
    run_in_transaction(retire_key, key_id, actor=ACTOR, now=utc_now())
    click.echo(f"Key {key_id} is retired. What it has signed stays valid.")


@signing_keys.command("revoke")
@click.argument("key_id")
@click.option(
    "--from",
    "from_",
    type=PAST,
    required=True,
    metavar="TIME",
    help="Since when others may have had the key: a time, or how long ago, such as 36h.",
)
def revoke(key_id: str, from_: datetime) -> None:
    """Revoke a key that leaked. Signatures dated TIME or later no longer count."""
    key = run_in_transaction(revoke_key, key_id, from_, actor=ACTOR, now=utc_now())
    if key.purpose is KeyPurpose.LOG:
        click.echo(
            f"Key {key_id} is revoked: its checkpoints no longer count, because they have no date. Now close the logs: "
            "run `tonne log reopen live --reason TEXT` and `tonne log reopen test --reason TEXT`. Proofs are then "
            "against the last checkpoint of the closed log, which the issuer file states."
        )
    else:
        click.echo(f"Key {key_id} is revoked: its signatures from {from_:%Y-%m-%d %H:%M} UTC on no longer count.")
    click.echo("Ask everyone who checks signatures to download the issuer file again.")
