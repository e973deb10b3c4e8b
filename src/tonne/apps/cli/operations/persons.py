"""tonne person"""

from datetime import datetime
from pathlib import Path

import click
import msgspec

from tonne.apps.cli.database import ACTOR, plain_failures, run_connected
from tonne.apps.cli.output import Format, Output, ValueColumn, columns, output_options, print_table
from tonne.apps.cli.parameters import MODE, MOMENT
from tonne.apps.privacy.erase_person import erase_person, find_again_any_account, repeat_erasures
from tonne.apps.privacy.export_person import (
    PersonRecord,
    count_kinds,
    export_person,
    find_person,
    list_bank_records_any_account,
    list_blockers,
)
from tonne.apps.privacy.model import Erasure, ErasureListInvalid, Found, FoundBy, Search, parse_person
from tonne.apps.privacy.store import list_erasures_any_account
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Mode, same_named, utc_now
from tonne.selling.accounts.lookup import require_organisation

RECORDS: tuple[ValueColumn[PersonRecord], ...] = (
    ValueColumn("type", lambda r: r.kind),
    *columns("id", "created_at: created", "is_erasable: erased by erase"),
    ValueColumn("data", lambda r: r.data, in_table=False),
)
ERASURES: tuple[ValueColumn[Erasure], ...] = (
    *columns("id", "started_at: started", "finished_at: finished", "found_by"),
    ValueColumn("orders", lambda e: e.counts.get("orders")),
    *columns("organisation_id: organisation", "mode"),
    ValueColumn("started_by", lambda e: e.started_by, shrinks=True),
    ValueColumn("person_hash", lambda e: e.person_hash.hex(), in_table=False),
    ValueColumn("salt", lambda e: e.salt.hex(), in_table=False),
    ValueColumn("counts", lambda e: e.counts, in_table=False),
)
_where = (
    click.option("--org", "organisation_id", help="Only the data of this organisation."),
    click.option("--mode", type=MODE, help="Only the data of this mode."),
)


@click.group()
def person() -> None:
    """Export and erase the data of a person, for example on request."""


@person.command("export")
@click.argument("email_or_name")
@_where[0]
@_where[1]
@output_options
def export(email_or_name: str, organisation_id: str | None, mode: Mode | None, output: Output) -> None:
    """Show what is held about a person.

    The person is named by an e-mail address, or by the private name on certificates. --json prints everything that is
    stored, one record per line. Records that `tonne person erase` leaves are marked: see docs/privacy.md.
    """
    search = _search(email_or_name, organisation_id, mode)

    async def work(connection: Connection, _: Settings) -> list[PersonRecord]:
        if organisation_id is not None:
            await require_organisation(connection, organisation_id)
        records = await export_person(connection, search)
        records += await list_bank_records_any_account(connection, search)
        async with connection.transaction():
            await audit.record(
                connection,
                organisation_id,
                "person.exported",
                by=ACTOR.now(),
                subject_id=organisation_id or "persons",
                found_by=search.person.found_by,
                records=len(records),
            )
        return records

    records = run_connected(work)
    output.print_rows(records, RECORDS, empty="Nothing is held about this person.")
    if output.format is Format.TABLE and records:
        click.echo(f"\n{', '.join(f'{number} {kind}' for kind, number in count_kinds(records).items())}")


@person.command("erase")
@click.argument("email_or_name")
@_where[0]
@_where[1]
@click.option("--yes", is_flag=True, help="Do not ask.")
def erase(email_or_name: str, organisation_id: str | None, mode: Mode | None, yes: bool) -> None:
    """Erase a person's e-mail address and private name.

    They become "erased" in orders, events, certificates, checkouts, estimates and mails. Amounts, quantities, numbers,
    invoices and bank records stay. This cannot be undone. It is refused while an order of the person is open.

    If it is interrupted, run it again. Backups still have the data: after a restore, run `tonne person repeat`.
    """
    search = _search(email_or_name, organisation_id, mode)
    found, blockers = run_connected(lambda connection, _: _look(connection, search))
    if found.is_empty and not blockers:
        click.echo("Nothing is held about this person.")
        return
    _print(found)
    if blockers:
        for blocker in blockers:
            click.echo(blocker, err=True)
        raise click.ClickException("The person cannot be erased yet. Finish what is listed above, then try again.")
    if not yes:
        click.confirm("Erase this data? It cannot be undone.", abort=True)
    made = run_connected(lambda connection, _: erase_person(connection, search, actor=ACTOR.actor, clock=utc_now))
    _print_made(made)


@person.command("list")
@click.option("--since", type=MOMENT, help="Only erasures that started at this time or later.")
@output_options
def list_(since: datetime | None, output: Output) -> None:
    """List the erasures. Persons appear only as salted hashes.

    Keep the output of --json outside of the database: `tonne person repeat` needs it after a restore.
    """
    found = run_connected(lambda connection, _: list_erasures_any_account(connection, since))
    output.print_rows(found, ERASURES, empty="No erasures.")


@person.command("repeat")
@click.argument("list_file", required=False, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--yes", is_flag=True, help="Do not ask.")
def repeat(list_file: Path | None, yes: bool) -> None:
    """Repeat erasures after a restore.

    A backup that is older than an erasure has the data again, and not the record of the erasure. LIST_FILE is what
    `tonne person list --json` printed before. Without it, the erasures that the database knows are repeated.
    """
    with plain_failures():
        listed = [] if list_file is None else _read_list(list_file)

    async def look(connection: Connection, _: Settings) -> tuple[int, list[Search]]:
        recorded = [*await list_erasures_any_account(connection, None), *listed]
        return len(recorded), await find_again_any_account(connection, recorded)

    count, searches = run_connected(look)
    if not searches:
        click.echo(f"{count:,} erasures compared: nothing that they erased is there again.")
        return
    click.echo(f"{count:,} erasures compared: the data of {len(searches):,} of them is there again.")
    if not yes:
        click.confirm("Erase it again? It cannot be undone.", abort=True)
    made, refused = run_connected(
        lambda connection, _: repeat_erasures(connection, searches, actor=ACTOR.actor, clock=utc_now)
    )
    for erasure in made:
        _print_made(erasure)
    for error in refused:
        click.echo(str(error), err=True)
    if refused:
        raise click.ClickException(f"{len(refused):,} persons cannot be erased yet: see above. Then repeat it again.")


def _search(email_or_name: str, organisation_id: str | None, mode: Mode | None) -> Search:
    with plain_failures():
        return Search(parse_person(email_or_name), organisation_id, mode)


async def _look(connection: Connection, search: Search) -> tuple[Found, list[str]]:
    if search.organisation_id is not None:
        await require_organisation(connection, search.organisation_id)
    found = await find_person(connection, search)
    return found, await list_blockers(connection, found)


def _print(found: Found) -> None:
    own = [each.id for each in found.orders if each.is_own]
    mentioning = [each.id for each in found.orders if not each.is_own]
    rows = [
        ("orders of the person", own),
        ("orders that mention the person", mentioning),
        ("checkouts without an order", [each.id for each in found.checkouts]),
        ("estimates", [each.id for each in found.estimates]),
        ("mails", [each.id for each in found.mails]),
        ("audit entries, which stay", found.mentions),
    ]
    print_table(("what", "count", "first"), [(what, str(len(ids)), ids[0]) for what, ids in rows if ids])


def _print_made(made: Erasure) -> None:
    changed = ", ".join(f"{number} {name.replace('_', ' ')}" for name, number in made.counts.items() if number)
    click.echo(f"Erased ({made.id}): {changed or 'nothing was left'}.")


class _ListedErasure(msgspec.Struct):
    """A line of the list of erasures."""

    id: str
    started_at: datetime
    started_by: str
    found_by: FoundBy
    organisation_id: str | None
    mode: Mode | None
    person_hash: str
    salt: str


def _read_list(path: Path) -> list[Erasure]:
    try:
        listed = [
            msgspec.json.decode(line, type=_ListedErasure) for line in path.read_bytes().splitlines() if line.strip()
        ]
        return [
            same_named(
                Erasure,
                each,
                salt=bytes.fromhex(each.salt),
                person_hash=bytes.fromhex(each.person_hash),
                finished_at=None,
                counts={},
            )
            for each in listed
        ]
    except (msgspec.MsgspecError, ValueError) as error:
        raise ErasureListInvalid from error
