"""tonne registry"""

from dataclasses import replace
from datetime import datetime
from pathlib import Path

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction, settings_from_environment
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import FILE, check_text, read_file, reported_errors
from tonne.apps.cli.selling.login import approve_or_link
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode, utc_now
from tonne.selling.users.approvals import Approver
from tonne.supply.registries.account_store import AccountState, list_states_any_account
from tonne.supply.registries.check_registries import settle_drift
from tonne.supply.registries.drift_store import OpenDrift, Resolution, list_open_drifts
from tonne.supply.registries.errors import RequestNotOpen
from tonne.supply.registries.instruction_store import ListedInstruction, list_open
from tonne.supply.registries.operate import check_account, retry_request
from tonne.supply.registries.settle_request import (
    RequestedSettlement,
    RequestFinding,
    RequestSettlement,
    approve_settlement,
    request_settlement,
)
from tonne.supply.registries.settlement_store import find as find_settlement
from tonne.supply.registries.upload_statement import (
    compare_statement,
    read_statement,
    read_unit_sizes,
    record_statement,
)

ACCOUNTS: tuple[ValueColumn[AccountState], ...] = (
    *columns("id: account", "mode", "adapter", "looked_at: last look", "open_requests: open"),
    *columns("asked_since: waiting since", "drift_grams: difference", "problem"),
)
_REQUEST: tuple[ValueColumn[ListedInstruction], ...] = (
    *columns("id: request", "registry_account: account", "state", "in_doubt: in doubt", "unit_count: units"),
    *columns("beneficiary", "sent_at: asked", "problem", shrinks=True),
)
_FACTS = columns(
    "mode", "reference", "lot_id: lot", "holding_id: holding", "units: numbers", "attempts", in_table=False
)
_TIMES = columns("recorded_at: recorded", "next_attempt_at: next look", "closed_at: closed", "registry_reference")
REQUESTS = (*_REQUEST, *_FACTS, *(replace(column, in_table=False) for column in _TIMES))

DRIFTS: tuple[ValueColumn[OpenDrift], ...] = (
    *columns("id: difference", "registry_account: account", "cause", "units", "lot_id: lot", "holding_id: holding"),
    *columns("seen_at: seen", "pause_reason: paused because", shrinks=True),
)


@click.group()
def registry() -> None:
    """See what registries are asked to retire, and settle differences."""


@registry.command("list")
@output_options
def list_(output: Output) -> None:
    """List the accounts at registries whose gateways retire credits."""
    output.print_rows(
        run_in_transaction(list_states_any_account), ACCOUNTS, empty="No registry has been asked for anything yet."
    )


@registry.command("requests")
@output_options
def requests(output: Output) -> None:
    """List the open requests to registries, oldest first."""
    output.print_rows(run_in_transaction(list_open), REQUESTS, empty="No request is open.")


@registry.command("differences")
@output_options
def differences(output: Output) -> None:
    """List where registries contradict the books, oldest first."""
    output.print_rows(run_in_transaction(list_open_drifts), DRIFTS, empty="All registries agree with the books.")


@registry.command("show")
@click.argument("request_id")
@output_options
def show(request_id: str, output: Output) -> None:
    """Show a request, and how far it is."""
    found = run_in_transaction(list_open, request_id)
    if not found:
        raise click.UsageError(f"There is no request {request_id}. `tonne registry requests` lists the open ones.")
    output.print_object(found[0], [replace(column, in_table=True) for column in REQUESTS])


@registry.command("check")
@click.argument("account")
def check(account: str) -> None:
    """Have the worker compare an ACCOUNT with the books now.

    A lot that differs in two looks is paused.
    """
    if not run_in_transaction(check_account, account, by=ACTOR.now()):
        raise click.UsageError(f"There is no account {account}. `tonne registry list` shows all.")
    click.echo(f"The worker compares {account} within {_LOOK_S} seconds. `tonne registry list` shows the result.")


_LOOK_S = 20


@registry.command("upload")
@click.option("--registry", "name", required=True, help="Name of the registry, as in the catalogue.")
@click.option("--column", help="The column that has the serials, unless its name is known.")
@click.option("--on", "day", type=click.DateTime(["%Y-%m-%d"]), help="Day of the statement; today if not given.")
@click.option("--yes", is_flag=True, help="Do not ask before lots are paused.")
@FILE
def upload(name: str, column: str | None, day: datetime | None, *, yes: bool, file: Path) -> None:
    """Compare a statement of an account with the live books.

    FILE is a CSV file with the serials of everything that is active in your account at a registry where a person
    retires. Units of the work list may be retired already. Lots that differ are paused, after a question.
    """
    by = ACTOR.now()
    sizes = run_in_transaction(read_unit_sizes, name)
    with reported_errors():
        active = read_statement(read_file(file), name, column, sizes=sizes)
    on = day.date() if day else by.at.date()
    compared = run_in_transaction(compare_statement, name, active, on)
    lots = 0
    for each in compared.seen:
        lots += each.lot_id is not None
        where = "at the registry" if each.units < 0 else "in the books"
        click.echo(f"{each.lot_id or each.holding_id}: {abs(each.units)} units are only {where}.")
    if lots and not yes:
        click.confirm(f"Pause {lots} {'lot' if lots == 1 else 'lots'}?", abort=True)
    run_in_transaction(record_statement, compared, file=file.name, by=by)
    count = len(compared.seen)
    agrees = "it agrees with the books" if not count else "1 difference" if count == 1 else f"{count} differences"
    click.echo(f"{compared.account.id}: {compared.there_units} units are active, {agrees}.")


@registry.command("retry")
@click.argument("request_id")
def retry(request_id: str) -> None:
    """Have the worker look a request up now.

    The registry is never asked for the same credits under another reference.
    """
    if not run_in_transaction(retry_request, request_id, by=ACTOR.now()):
        raise click.UsageError(f"No request {request_id} is open. `tonne registry requests` lists the open ones.")
    click.echo(f"The worker looks {request_id} up within seconds.")


@registry.command("settle")
@click.argument("settled_id", metavar="DIFFERENCE_OR_REQUEST")
@click.option("--explained", "resolution", flag_value="explained", help="The difference stays, and is expected.")
@click.option("--corrected", "resolution", flag_value="corrected", help="The difference should be gone now.")
@click.option("--retired", "url", metavar="URL", help="Of a request: the registry's page of the retirement.")
@click.option("--not-retired", is_flag=True, help="Of a request: the registry has retired nothing, and will not.")
@click.option("--serial", "serials", multiple=True, help="With --retired: a serial that is retired. Repeatable.")
@click.option("--on", "retired_on", type=click.DateTime(["%Y-%m-%d"]), help="With --retired: the day.")
@click.option("--holding", help="The holding that has what is left, if the registry has split it.")
@click.option("--reason", required=True, help="Why, for the records.")
def settle(
    settled_id: str,
    resolution: str | None,
    url: str | None,
    *,
    not_retired: bool,
    serials: tuple[str, ...],
    retired_on: datetime | None,
    holding: str | None,
    reason: str,
) -> None:
    """Settle what a registry contradicts, or has not answered.

    A difference is closed, and its lot resumed: --explained or --corrected; the id of the lot does, too. Of a request
    in doubt you say what you have found out at the registry: --retired or --not-retired. Another person approves that.
    """
    reason = check_text(reason, "--reason")
    if resolution is not None:
        _settle_drift(settled_id, Resolution(resolution), reason)
        return
    if not_retired == (url is not None) or (url is not None and (not serials or retired_on is None)):
        raise click.UsageError(
            "Of a difference, say --explained or --corrected. Of a request, say --not-retired, or --retired with the "
            "address, --serial and --on."
        )
    settlement = RequestSettlement(
        finding=RequestFinding.NOT_RETIRED if not_retired else RequestFinding.RETIRED,
        reason=reason,
        retirement_url=url,
        retired_on=retired_on and retired_on.date(),
        serials=serials,
        next_holding_id=holding,
    )
    settings = settings_from_environment()
    made = run_in_transaction(request_settlement, settled_id, settlement, settings=settings, by=ACTOR.now())
    people = "another person approves" if made.missing == 1 else "two people approve"
    click.echo(f"It is booked when {people} it: `tonne registry approve {settled_id}`.")


@registry.command("approve")
@click.argument("request_id")
def approve(request_id: str) -> None:
    """Print the link to approve what became of a request.

    With TONNE_APPROVALS_BY=token, and after `tonne login`, the command approves it.
    """

    async def find_page(tx: Connection) -> tuple[Mode, str]:
        stored = await find_settlement(tx, request_id)
        if stored is None:
            raise RequestNotOpen(f"Nobody has said what became of request {request_id}.")
        return stored.mode, f"registries/requests/{request_id}"

    async def work(tx: Connection, approver: Approver) -> RequestedSettlement:
        return await approve_settlement(tx, request_id, approver=approver, settings=settings, now=utc_now())

    settings = settings_from_environment()
    made = approve_or_link(find_page, work)
    if made is not None:
        then = "waits for another person, who must approve it, too" if made.missing else "is settled"
        click.echo(f"Request {request_id} {then}.")


def _settle_drift(settled_id: str, resolution: Resolution, reason: str) -> None:
    async def work(tx: Connection) -> OpenDrift | None:
        found = await list_open_drifts(tx, drift_or_lot_id=settled_id)
        if found:
            await settle_drift(tx, found[0], resolution, reason=reason, by=ACTOR.now())
        return found[0] if found else None

    drift = run_in_transaction(work)
    if drift is None:
        raise click.UsageError(
            f"There is no difference {settled_id}. `tonne registry differences` lists those there are."
        )
    click.echo(f"Difference {drift.id} is settled." + (f" Lot {drift.lot_id} supplies orders." if drift.lot_id else ""))
