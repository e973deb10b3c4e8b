"""tonne audit"""

from typing import Any

import click
import msgspec

from tonne.apps.cli.database import run_in_transaction
from tonne.apps.cli.output import Format, Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import MODE, MOMENT
from tonne.platform.events.audit.store import AuditFilter, StoredEntry, list_entries_any_account

MAX_CHANGE = 100
COLUMNS: tuple[ValueColumn[StoredEntry], ...] = (
    ValueColumn("created_at", lambda e: e.created_at, head="time"),
    ValueColumn("actor", lambda e: str(e.actor), shrinks=True),
    *columns("action", "subject_id: subject"),
    ValueColumn("details", lambda e: e.details, head="change", show=lambda e: _change(e), shrinks=True),
    *columns("organisation_id: organisation", "mode", "actor.address"),
    *columns("before", "after", "id", in_table=False),
)


@click.command()
@click.option("--org", "organisation_id", metavar="ID", help="Only entries of this organisation.")
@click.option("--subject", "subject_id", metavar="ID", help="Only changes of this object, such as a bundle or a key.")
@click.option("--action", metavar="PREFIX", help="Only actions that begin with this, such as bundle.")
@click.option("--actor", metavar="TEXT", help="Only entries whose actor contains this, such as a user or a key id.")
@click.option("--mode", type=MODE, help="Only changes of this mode.")
@click.option("--since", type=MOMENT, help="Only entries from this time on.")
@click.option("--until", type=MOMENT, help="Only entries before this time.")
@click.option("--limit", type=click.IntRange(1, 1_000_000), default=50, show_default=True, help="How many at most.")
@output_options
def audit(organisation_id: str | None, limit: int, output: Output, **filters: Any) -> None:
    """Show who changed what, newest first.

    Changes of the catalogue belong to no organisation. Times are in UTC; a date means its beginning.
    """
    entries = run_in_transaction(list_entries_any_account, organisation_id, AuditFilter(**filters), limit)
    output.print_rows(entries, COLUMNS, empty="No entries.")
    if output.format is Format.TABLE and len(entries) == limit:
        click.echo(f"There may be more: these are the newest {limit:,}. Use --limit or --until.", err=True)


def _change(entry: StoredEntry) -> str:
    """The changed values and details on one line, such as `enabled: true -> false`."""
    if entry.before is not None and entry.after is not None:
        parts = [f"{name}: {_text(entry.before.get(name))} -> {_text(value)}" for name, value in entry.after.items()]
    else:
        sign = "+" if entry.before is None else "-"
        parts = [f"{sign}{name}: {_text(value)}" for name, value in (entry.after or entry.before or {}).items()]
    parts += [f"{name}: {_text(value)}" for name, value in entry.details.items() if value not in (None, "")]
    line = ", ".join(parts)
    return line if len(line) <= MAX_CHANGE else line[: MAX_CHANGE - 3] + "..."


def _text(value: Any) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
