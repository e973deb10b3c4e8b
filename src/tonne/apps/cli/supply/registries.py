"""tonne registry"""

from dataclasses import replace

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction
from tonne.apps.cli.output import Output, ValueColumn, columns, output_options
from tonne.apps.cli.parameters import check_text
from tonne.supply.registries.account_store import AccountState, Resolution, list_accounts
from tonne.supply.registries.check_registries import settle_lot
from tonne.supply.registries.instruction_store import ListedInstruction, list_open
from tonne.supply.registries.operate import check_account, retry_request

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


@click.group()
def registry() -> None:
    """See what registries are asked to retire, and settle differences."""


@registry.command("list")
@output_options
def list_(output: Output) -> None:
    """List the accounts at registries whose gateways retire credits."""
    output.print_rows(run_in_transaction(list_accounts), ACCOUNTS, empty="No registry has been asked for anything yet.")


@registry.command("requests")
@output_options
def requests(output: Output) -> None:
    """List the open requests to registries, oldest first."""
    output.print_rows(run_in_transaction(list_open), REQUESTS, empty="No request is open.")


@registry.command("show")
@click.argument("request_id")
@output_options
def show(request_id: str, output: Output) -> None:
    """Show a request: what the registry is asked for, and how far it is."""
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
@click.argument("lot_id")
@click.option("--explained", "resolution", flag_value="explained", help="The difference stays and is expected.")
@click.option("--corrected", "resolution", flag_value="corrected", help="The difference should be gone now.")
@click.option("--reason", required=True, help="Why, for the records.")
def settle(lot_id: str, resolution: str | None, reason: str) -> None:
    """Resume a lot whose registry contradicted the books."""
    if resolution is None:
        raise click.UsageError("Say what became of the difference: --explained or --corrected.")
    reason, by = check_text(reason, "--reason"), ACTOR.now()
    if not run_in_transaction(settle_lot, lot_id, Resolution(resolution), reason=reason, by=by):
        raise click.UsageError(f"Lot {lot_id} is not paused. `tonne doctor` names the lots that are.")
    click.echo(f"Lot {lot_id} supplies orders again.")
