"""tonne lot and tonne unit"""

from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from tonne.apps.cli.database import ACTOR, run_in_transaction, settings_from_environment
from tonne.apps.cli.output import (
    STATUS_STYLES,
    Output,
    Table,
    TonnesColumn,
    ValueColumn,
    columns,
    detect_output,
    group,
    output_options,
)
from tonne.apps.cli.parameters import MODE, check_text, creating
from tonne.platform.db.database import Connection
from tonne.platform.values.amounts import format_tonnes
from tonne.platform.values.context import Mode
from tonne.platform.values.serials import serial_range
from tonne.supply.retirements.resupply.invalidate_lot import LotHolder, invalidate_lot, list_holders_any_account
from tonne.supply.retirements.resupply.resupply_orders import Decision, resolve_lot_cases
from tonne.supply.stock.errors import LotNotFound
from tonne.supply.stock.lots import lot_store
from tonne.supply.stock.lots.export_lots import export_lots
from tonne.supply.stock.lots.lot_case_store import CaseState
from tonne.supply.stock.lots.lots import withdraw_lot
from tonne.supply.stock.parcels.units import Unit, close_unit_any_account, list_units_any_account

_mode_option = click.option("--mode", type=MODE, required=True, help="Catalogue to use: live and test have one each.")

COLUMNS: tuple[ValueColumn[lot_store.ListedLot], ...] = (
    *columns("id: lot", "registry", "registry_project_id: project"),
    ValueColumn("vintage", lambda each: each.vintage, show=lambda each: str(each.vintage)),
    TonnesColumn("quantity", lambda each: each.quantity_grams, head="tonnes"),
    TonnesColumn("free_quantity", lambda each: each.free_grams, head="free"),
    TonnesColumn("allocated_quantity", lambda each: each.held_grams, head="allocated", in_table=False),
    TonnesColumn("retired_quantity", lambda each: each.retired_grams, head="retired", in_table=False),
    ValueColumn(
        "status", lambda each: each.status, show=lambda each: _status(each), styles=STATUS_STYLES, shrinks=True
    ),
    ValueColumn("serials", lambda each: _serials(each), shrinks=True),
    ValueColumn("unit_cost", lambda each: each.unit_cost, show=lambda each: _cost(each), head="cost", align_right=True),
    *columns("cost_currency", "mode", "retired_on", in_table=False),
    *columns("withdrawn_at", "invalidated_at", "paused_at", "reason", "created_at: imported", in_table=False),
)
_HIDDEN_FACTS = {
    *("retired_on", "withdrawn_at", "invalidated_at", "paused_at", "reason"),
    "cost_currency",
}
FACTS = tuple(replace(column, in_table=column.name not in _HIDDEN_FACTS) for column in COLUMNS)
HOLDER_COLUMNS: tuple[ValueColumn[LotHolder], ...] = (
    ValueColumn("order_id", lambda each: each.order_id, head="order"),
    ValueColumn("status", lambda each: each.order_status, styles=STATUS_STYLES),
    TonnesColumn("quantity", lambda each: each.quantity_grams, head="tonnes"),
    TonnesColumn("retired_quantity", lambda each: each.retired_grams, head="retired"),
    ValueColumn("certificate", lambda each: each.certificate_number),
    ValueColumn("certificate_state", lambda each: each.certificate_state, head="state"),
    ValueColumn("invalid_credits", lambda each: each.case_state, head="decision"),
    ValueColumn("beneficiary", lambda each: each.beneficiary, shrinks=True),
    *columns("account_id", "organisation_id", in_table=False),
)


@click.group()
def lot() -> None:
    """List, export, withdraw and invalidate lots of credits."""


@lot.command("list")
@_mode_option
@output_options
def list_(mode: Mode, output: Output) -> None:
    """List all lots with their free tonnes, also withdrawn ones."""

    async def work(tx: Connection) -> list[lot_store.ListedLot]:
        held = await lot_store.add_retired_any_account(tx, mode, await lot_store.list_lots(tx, mode))
        return [*held, *await lot_store.list_withdrawn_lots(tx, mode)]

    lots = run_in_transaction(work)
    empty = f"There are no lots in {mode} mode: import some with `tonne catalogue import-lots --mode {mode}`."
    output.print_rows(lots, COLUMNS, empty=empty)


@lot.command("show")
@click.argument("lot_id")
@output_options
def show(lot_id: str, output: Output) -> None:
    """Show a lot, its orders, certificates and parcels."""

    async def work(tx: Connection) -> tuple[lot_store.ListedLot, list[LotHolder], list[lot_store.ListedParcel]]:
        found = await lot_store.find_lot(tx, lot_id) or await lot_store.find_withdrawn_lot(tx, lot_id)
        if found is None:
            raise LotNotFound
        (found,) = await lot_store.add_retired_any_account(tx, found.mode, [found])
        return found, await list_holders_any_account(tx, found), await lot_store.list_parcels_any_account(tx, found)

    found, holders, parcels = run_in_transaction(work)
    parcel_columns: tuple[ValueColumn[lot_store.ListedParcel], ...] = (
        ValueColumn("id", lambda each: each.id, head="parcel"),
        ValueColumn("serials", lambda each: _parcel_serials(found, each)),
        *columns("quantity_grams: tonnes", "status", "retired_on: retired"),
        ValueColumn("order_ids", lambda each: each.order_ids, head="orders", shrinks=True),
    )
    tables: list[Table[Any]] = [Table("orders", holders, HOLDER_COLUMNS), Table("parcels", parcels, parcel_columns)]
    output.print_object(found, FACTS, tables)


def _parcel_serials(found: lot_store.ListedLot, each: lot_store.ListedParcel) -> str:
    return serial_range(found.registry, found.serial, found.unit_grams, each.start_grams, each.quantity_grams)


@lot.command("export")
@_mode_option
@click.option("-o", "--output", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File to write.")
def export(mode: Mode, output: Path) -> None:
    """Write the lots of which no order holds credits to a CSV file.

    To correct lots, change the file and import it with `tonne catalogue import-lots`.
    """
    lots = [each for each in run_in_transaction(lot_store.list_lots, mode) if not each.allocated_grams]
    with creating(output), output.open("xb") as stream:
        stream.write(export_lots(lots))
    click.echo(f"{output}: {len(lots):,} {'lot' if len(lots) == 1 else 'lots'} that can be corrected.")


@lot.command("withdraw")
@click.argument("lot_id")
@click.option("--reason", required=True, help="Why, for the records.")
def withdraw(lot_id: str, reason: str) -> None:
    """Withdraw a lot of which no order holds credits.

    It supplies no orders any more. Its serial numbers may be imported again.
    """
    reason = check_text(reason, "--reason")
    withdrawn = run_in_transaction(withdraw_lot, lot_id, reason=reason, by=ACTOR.now())
    click.echo(f"Lot {withdrawn.id} ({_serials(withdrawn)}, {_tonnes(withdrawn.quantity_grams)}) is withdrawn.")


@lot.command("invalidate")
@click.argument("lot_id")
@click.option(
    "--reason", required=True, help="Why, in a sentence: certificates that are replaced or withdrawn state it."
)
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
def invalidate(lot_id: str, reason: str, yes: bool) -> None:
    """Invalidate a lot whose credits turned out to be worthless.

    Lists the orders and certificates that it affects, and asks. Then its free tonnes leave supply. Orders without a
    certificate get other credits automatically. For orders with one, decide with `tonne lot resolve`.
    """
    reason = check_text(reason, "--reason")

    async def look(tx: Connection) -> tuple[lot_store.ListedLot, list[LotHolder]]:
        found = await lot_store.find_lot(tx, lot_id)
        if found is None:
            raise LotNotFound
        return found, await list_holders_any_account(tx, found)

    found, holders = run_in_transaction(look)
    if found.invalidated_at is not None:
        click.echo(f"Lot {lot_id} is already invalid: {found.reason}")
        return
    if holders:
        detect_output().print_rows(holders, HOLDER_COLUMNS)
        certified = sum(holder.certificate_number is not None for holder in holders)
        click.echo(f"{_count(len(holders), 'order')} affected, {_count(certified, 'certificate')} issued.")
    if holders and not yes:
        click.confirm(f"Invalidate lot {lot_id} ({_serials(found)})? This cannot be undone.", abort=True)
    done = run_in_transaction(invalidate_lot, lot_id, reason=reason, by=ACTOR.now())
    resupply = sum(case.state is CaseState.RESUPPLY for case in done.cases)
    undecided = sum(case.state is CaseState.UNDECIDED for case in done.cases)
    click.echo(f"Lot {lot_id} is invalid. {_tonnes(done.lot.free_grams)} that were free left supply.")
    if resupply:
        click.echo(f"{_count(resupply, 'order')} without a certificate: other credits are allocated automatically.")
    if undecided:
        click.echo(
            f"{_count(undecided, 'order')} with a certificate: decide with `tonne lot resolve {lot_id} --order ORDER "
            "--resupply` or `--withdraw`."
        )
    if done.lost_holds:
        click.echo(
            f"{_count(len(done.lost_holds), 'checkout')} held tonnes of it: if these customers pay, their orders wait "
            "for supply."
        )


@lot.command("resolve")
@click.argument("lot_id")
@click.option("--order", "order_ids", multiple=True, help="An order that holds credits of the lot. May be repeated.")
@click.option("--all", "every", is_flag=True, help="All orders about which nothing is decided yet.")
@click.option(
    "--resupply", "decision", flag_value="resupply", help="Allocate other credits, then issue a new certificate."
)
@click.option(
    "--withdraw", "decision", flag_value="withdraw", help="Withdraw the certificate, with the reason of the lot."
)
def resolve(lot_id: str, order_ids: tuple[str, ...], every: bool, decision: str | None) -> None:
    """Decide about certificates that state an invalid lot.

    With --resupply the order gets credits of other lots, and the worker issues a new certificate when they are retired.
    With --withdraw the certificate is withdrawn at once; --resupply is still possible later.
    """
    if decision is None:
        raise click.UsageError("Choose --resupply or --withdraw.")
    if bool(order_ids) == every:
        raise click.UsageError("Name orders with --order, or use --all.")
    requested = None if every else list(order_ids)
    changed = run_in_transaction(resolve_lot_cases, lot_id, requested, Decision(decision), by=ACTOR.now())
    if not changed:
        click.echo("No changes: nothing is undecided.")
    elif decision == Decision.RESUPPLY:
        click.echo(f"{_count(len(changed), 'order')} will get other credits and a new certificate.")
    else:
        click.echo(f"{_count(len(changed), 'certificate')} withdrawn.")


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun if number == 1 else noun + 's'}"


def _tonnes(grams: int) -> str:
    return f"{group(format_tonnes(grams))} t"


def _cost(each: lot_store.ListedLot) -> str:
    return "-" if each.unit_cost is None else f"{each.unit_cost} {each.cost_currency}"


def _serials(each: lot_store.ListedLot) -> str:
    return each.serial


def _status(each: lot_store.ListedLot) -> str:
    if each.withdrawn_at is not None:
        return f"withdrawn on {each.withdrawn_at.date()}: {each.reason}"
    if each.invalidated_at is not None:
        return f"invalid since {each.invalidated_at.date()}: {each.reason}"
    if each.paused_at is not None:
        return f"paused since {each.paused_at.date()}: {each.reason}"
    return f"{each.status} on {each.retired_on}" if each.retired_on else each.status


UNIT_COLUMNS: tuple[ValueColumn[Unit], ...] = (
    *columns("id: unit", "mode", "status", "registry_project_id: project"),
    TonnesColumn("allocated_quantity", lambda unit: unit.allocated_grams, head="sold"),
    TonnesColumn("quantity", lambda unit: unit.quantity_grams, head="of"),
    ValueColumn(
        "fill_percent", lambda unit: unit.fill_percent, head="fill", show=lambda unit: f"{unit.fill_percent} %"
    ),
    ValueColumn("close_at", lambda unit: unit.close_at, head="closes"),
    ValueColumn("orders_waiting", lambda unit: len(unit.order_ids), head="waiting"),
    ValueColumn("beneficiary", lambda unit: unit.beneficiary, head="in the name of", shrinks=True),
    TonnesColumn("free_quantity", lambda unit: unit.free_grams, in_table=False),
    *columns("registry", "project_name", "account_id", "order_ids", "opened_at", in_table=False),
)


@click.group()
def unit() -> None:
    """List and close pooled units, which several orders share."""


@unit.command("list")
@click.option("--mode", type=MODE, help="Only this mode. Default: both.")
@output_options
def list_open(mode: Mode | None, output: Output) -> None:
    """List open units, and those whose rest is for sale.

    An open unit waits for more fractions of its account. It is put on the work list when it is full, or at its closing
    date. Units in the service's name serve fractions of all accounts.
    """

    async def work(tx: Connection) -> list[Unit]:
        modes = [mode] if mode else list(Mode)
        return [found for each in modes for found in await list_units_any_account(tx, each)]

    output.print_rows(run_in_transaction(work), UNIT_COLUMNS, empty="There are no pooled units.")


@unit.command("close")
@click.argument("unit_id")
def close(unit_id: str) -> None:
    """Put an open unit on the work list now, in the service's name.

    Its rest serves later fractions of any account.
    """
    service_name = settings_from_environment().seller_name
    run_in_transaction(close_unit_any_account, unit_id, service_name=service_name, by=ACTOR.now())
    click.echo(f"Unit {unit_id} is on the work list, in the name of {service_name}.")
