"""tonne log and tonne verify"""

import asyncio
import sys
from pathlib import Path

import click
import msgspec

from tonne.apps.cli.database import ACTOR, run_connected, run_in_snapshot
from tonne.apps.cli.parameters import MODE, REASON
from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, utc_now
from tonne.supply.transparency.append_leaves import reopen_log
from tonne.supply.transparency.head_file import HeadFile
from tonne.supply.transparency.log_store import list_logs
from tonne.supply.transparency.model import Log
from tonne.supply.transparency.statement_store import read_openings

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
            return await reopen_log(
                connection, mode, head, base_url=settings.base_url, reason=reason, actor=ACTOR, now=utc_now()
            )

    old, new = run_connected(work)
    click.echo(f"The log {old.origin} is closed. The worker publishes {new.origin} from now on.")


@log.command()
@click.argument("mode", type=MODE)
@click.argument("output", type=click.Path(dir_okay=False, path_type=Path))
def openings(mode: Mode, output: Path) -> None:
    """Write what each published entry states to a file, for an auditor.

    One JSON object per line, in the order of the log. The file has names of people: hand it over like other personal
    data. `tonne-verify audit` with --openings compares it with the public log.
    """

    async def work(tx: Connection) -> int:
        count = 0
        with output.open("wb") as file:
            for each in await list_logs(tx):
                if each.mode is mode:
                    async for opening in read_openings(tx, each):
                        file.write(msgspec.json.encode(opening) + b"\n")
                        count += 1
        return count

    # Part of it may have been written when a replica cancels a query.
    count = run_in_snapshot(work, repeatable=False)
    click.echo(f"{output}: {count:,} {'opening' if count == 1 else 'openings'}.")


@log.command()
@click.argument("url")
@click.option("--state", required=True, type=FILE, help="The file that remembers what was seen. Keep it.")
@click.option("--issuer", type=FILE, help="The seller's public keys. Otherwise those seen at the first audit.")
@click.option("--openings", type=FILE, help="What the entries state, from `tonne log openings`.")
@click.option("--whole", is_flag=True, help="Read all entries again, not only new ones.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
def audit(url: str, state: Path, issuer: Path | None, openings: Path | None, *, whole: bool, as_json: bool) -> None:
    """Check that nothing published in the log at URL has changed.

    URL is the website of any Tonne, or one log, such as https://offsets.example.com/log. Needs no database and no
    settings. Run it regularly: it compares the log with what it has seen before.

    The exit code is 0 if nothing has changed, 1 if something is wrong, and 2 if the log cannot be read.
    """
    from tonne_verify.monitor import AuditOptions  # noqa: PLC0415 - see below
    from tonne_verify.run import run_audit  # noqa: PLC0415 - it imports pyHanko

    sys.exit(run_audit(url, AuditOptions(state, issuer, openings, whole), click.echo, as_json=as_json))


# A missing file is reported like other unreadable ones.


@click.command()
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=FILE)
@click.option(
    "--issuer",
    required=True,
    type=FILE,
    help="The seller's public keys, from https://HOST/.well-known/tonne-issuer.json.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON for scripts.")
@click.option("--online", is_flag=True, help="Ask the seller whether certificates and keys are still valid.")
def verify(files: tuple[Path, ...], issuer: Path, *, as_json: bool, online: bool) -> None:
    """Verify certificates: PDF files, or credential.json.

    Needs no database and no settings. The exit code is 0 if everything that was checked holds, 1 if something does not,
    and 2 if a file cannot be read. The package tonne-verify does the same without this service.
    """
    from tonne_verify.run import VerifyOptions, run_verify  # noqa: PLC0415 - it imports pyHanko

    sys.exit(run_verify(files, VerifyOptions(issuer, as_json, online), click.echo))
