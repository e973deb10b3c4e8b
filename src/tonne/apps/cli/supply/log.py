"""tonne log, tonne verify, tonne signing-keys and tonne signing"""

import asyncio
import sys
from datetime import datetime
from pathlib import Path
from typing import Any

import click
import msgspec

from tonne.apps.cli.database import ACTOR, run_connected, run_in_snapshot, run_in_transaction
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import MODE, PAST, REASON, EnumChoice
from tonne.money.invoices.originals.originals import Originals
from tonne.platform.db.connections import HeldConnection
from tonne.platform.db.database import Connection
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.keys.signing.key_store import list_signing_keys
from tonne.platform.keys.signing.keys import SignDocuments, SigningKeys, retire_key, revoke_key, rotate_key
from tonne.platform.keys.signing.model import KeyPurpose, KeyRecord
from tonne.platform.keys.signing.operator_key import has_outside_key
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, utc_now
from tonne.supply.certificates.pdf_store import forget_pdfs_signed_since_any_account
from tonne.supply.certificates.renew_pdfs import renew_pdfs
from tonne.supply.transparency.append_leaves import reopen_log
from tonne.supply.transparency.disclosed import is_disclosed, parse_registries
from tonne.supply.transparency.head_file import HeadFile
from tonne.supply.transparency.log_store import list_logs
from tonne.supply.transparency.model import Log
from tonne.supply.transparency.statement_store import read_openings
from tonne_verify.openings import StatementKind

FILE = click.Path(path_type=Path)


@click.group()
def log() -> None:
    """Manage the transparency log of retirements and certificates."""


@log.command()
@click.argument("mode", type=MODE)
@click.option("--reason", type=REASON, required=True, help="Why, for the audit log.")
def reopen(mode: Mode, reason: str) -> None:
    """Close the log of a mode and start a new one.

    Only if `tonne doctor` says that publishing is refused, and the newer state of the database is lost. The first entry
    of the new log is the last signed checkpoint of the old one, from the file in TONNE_LOG_HEAD_FOLDER. Certificates
    that no checkpoint in the database covers enter the new log. Proofs that were handed out stay valid.
    """

    async def work(connection: Connection, settings: Settings) -> tuple[Log, Log]:
        head = await asyncio.to_thread(HeadFile(settings, mode).read)
        async with connection.transaction():
            return await reopen_log(connection, mode, head, base_url=settings.base_url, reason=reason, by=ACTOR.now())

    old, new = run_connected(work)
    click.echo(f"The log {old.origin} is closed. The worker publishes {new.origin} from now on.")


@log.command()
@click.argument("mode", type=MODE)
@click.argument("output", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--retirements", is_flag=True, help="Only retirements, which name nobody: a file that you can publish.")
@click.option("--registry", multiple=True, help="Only retirements of this registry. Repeat it for several.")
def openings(mode: Mode, output: Path, registry: tuple[str, ...], *, retirements: bool) -> None:
    """Write what each published entry states to a file, for an auditor.

    One JSON object per line, in the order of the log. The file has names of people: hand it over like other personal
    data. `tonne-verify audit` with --openings compares it with the public log. `tonne-verify monitor` compares the
    retirements of several sellers, so that no credit is sold twice. The setting `log_discloses` publishes them.
    """

    registries = parse_registries(",".join(registry) or "all")

    def is_wanted(statement: dict[str, Any]) -> bool:
        if statement["kind"] == StatementKind.RETIREMENT:
            return is_disclosed(statement["facts"], registries)
        return not (retirements or registry)

    async def work(tx: Connection) -> int:
        count = 0
        with output.open("wb") as file:
            for each in await list_logs(tx):
                if each.mode is mode:
                    async for opening in read_openings(tx, each):
                        if is_wanted(opening["statement"]):
                            file.write(msgspec.json.encode(opening) + b"\n")
                            count += 1
        return count

    # Part of it may have been written when a replica cancels a query.
    count = run_in_snapshot(work, repeatable=False)
    click.echo(f"{output}: {count:,} {'opening' if count == 1 else 'openings'}.")


@log.command()
@click.argument("url")
@click.option("--state", required=True, type=FILE, help="The file that remembers what was seen. Keep it.")
@click.option("--issuer", type=FILE, help="The seller's public keys, which you trust from then on.")
@click.option("--policy", type=FILE, help="Whom you trust: logs, witnesses and a quorum (c2sp.org/tlog-policy).")
@click.option("--openings", type=FILE, help="What the entries state, from `tonne log openings`.")
@click.option("--whole", is_flag=True, help="Read all entries again, not only new ones.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def audit(
    url: str,
    state: Path,
    issuer: Path | None,
    policy: Path | None,
    openings: Path | None,
    *,
    whole: bool,
    as_json: bool,
) -> None:
    """Check that nothing published in the log at URL has changed.

    URL is the website of any Tonne, or one log, such as https://offsets.example.com/log. Needs no database and no
    settings. Run it regularly: it compares the log with what it has seen before.

    The exit code is 0 if nothing has changed, 1 if something is wrong, 2 if the log cannot be read, and 3 if you have
    not trusted its key.
    """
    from tonne_verify.monitor import AuditOptions  # noqa: PLC0415 - see below
    from tonne_verify.run import run_audit  # noqa: PLC0415 - it imports pyHanko

    sys.exit(run_audit(url, AuditOptions(state, issuer, openings, whole, policy), click.echo, as_json=as_json))


# A missing file is reported like other unreadable ones.


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=FILE)
@click.option(
    "--issuer",
    required=True,
    type=FILE,
    help="The seller's public keys, from https://HOST/.well-known/tonne-issuer.json.",
)
@click.option("--policy", type=FILE, help="Whom you trust: logs, witnesses and a quorum (c2sp.org/tlog-policy).")
@click.option("--accept-no-witness", is_flag=True, help="If no witness is named, accept that the seller alone vouches.")
@click.option(
    "--max-delay",
    type=int,
    default=48,
    metavar="HOURS",
    help="How late a certificate may be cosigned; default 48.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
@click.option("--online", is_flag=True, help="Ask the seller whether certificates and keys are still valid.")
@click.option("--state", type=FILE, help="Compare the proofs with what an audit has seen.")
def verify(
    files: tuple[Path, ...],
    issuer: Path,
    policy: Path | None,
    *,
    accept_no_witness: bool,
    max_delay: int,
    as_json: bool,
    online: bool,
    state: Path | None,
) -> None:
    """Verify certificates: PDF files, or credential.json.

    Needs no database and no settings. The exit code is 0 if the certificate is proven under the policy, 1 if something
    is false, 2 if a file cannot be read, 3 if something is not proven, and 4 for a test certificate. The package
    tonne-verify does the same without this service.
    """
    from tonne_verify.run import VerifyOptions, run_verify  # noqa: PLC0415 - it imports pyHanko

    options = VerifyOptions(issuer, as_json, online, policy, accept_no_witness, max_delay, state=state)
    sys.exit(run_verify(files, options, click.echo))


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
            return await rotate_key(connection, purpose, box, settings.seller_name, by=ACTOR.now())

    made, replaced = run_connected(work)
    click.echo(f"Key {made.id} signs from now on.")
    if replaced is not None:
        click.echo(f"Key {replaced} is retired. What it has signed stays valid.")


@signing_keys.command("retire")
@click.argument("key_id")
def retire(key_id: str) -> None:
    """Stop using a key. What it has signed stays valid, and the next signature creates a new key."""
    run_in_transaction(retire_key, key_id, by=ACTOR.now())
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

    async def work(tx: Connection) -> KeyRecord:
        key = await revoke_key(tx, key_id, from_, by=ACTOR.now())
        if key.purpose is KeyPurpose.DOCUMENT:
            await forget_pdfs_signed_since_any_account(tx, from_)
        return key

    key = run_in_transaction(work)
    if key.purpose is KeyPurpose.LOG:
        click.echo(
            f"Key {key_id} is revoked: its checkpoints no longer count, because they have no date. Now close the logs: "
            "run `tonne log reopen live --reason TEXT` and `tonne log reopen test --reason TEXT`. Proofs are then "
            "against the last checkpoint of the closed log, which the issuer file states."
        )
    else:
        click.echo(f"Key {key_id} is revoked: its signatures from {from_:%Y-%m-%d %H:%M} UTC on no longer count.")
    click.echo("Ask everyone who checks signatures to download the issuer file again.")


@click.group()
def signing() -> None:
    """Keep signed PDFs valid for decades."""


@signing.command()
@click.option(
    "--before",
    type=PAST,
    default="52w",
    show_default=True,
    metavar="TIME",
    help="Only PDFs that were made or renewed last before TIME: a time, or how long ago, such as 52w.",
)
def renew(before: datetime) -> None:
    """Append a time stamp to the stored PDFs of certificates.

    Do so before the certificate of the time-stamp authority expires. If the command is interrupted, run it again: it
    goes on with the rest.
    """

    async def work(connection: Connection, settings: Settings) -> None:
        documents = sign_documents(HeldConnection(connection), settings)
        if not documents.has_time_stamps:
            raise click.ClickException("Set TONNE_DOCUMENT_TIME_STAMP_URL: time stamps come from that server.")
        renewed = failed = 0
        async for count, failures in renew_pdfs(HeldConnection(connection), documents, before, by=ACTOR.now()):
            renewed, failed = renewed + count, failed + len(failures)
            for number, reason in failures.items():
                click.echo(f"{number} is not renewed: {reason}", err=True)
            click.echo(f"Renewed: {renewed} PDF{'' if renewed == 1 else 's'}.")
        if failed:
            raise click.ClickException(f"Not renewed: {failed}. Run the command again when the reason is gone.")
        if not renewed:
            click.echo(f"No stored PDF was made or renewed last before {before:%Y-%m-%d %H:%M} UTC.")

    run_connected(work)


def originals_of(connection: Connection, settings: Settings) -> Originals:
    """Raises SettingsError if the key in the database is needed and the secret key is missing."""
    held = HeldConnection(connection)
    return Originals(held, sign_documents(held, settings), settings, utc_now)


def sign_documents(held: HeldConnection, settings: Settings) -> SignDocuments:
    """Raises SettingsError if the key in the database is needed and the secret key is missing."""
    box = None if has_outside_key(settings) else SecretBox.from_settings(settings)
    return SignDocuments(SigningKeys(held, box, settings, utc_now), settings.document_time_stamp_url)
