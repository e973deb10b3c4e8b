"""Book what a registry has retired, by the function that imports confirmations: there is one way into the books."""

from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, Mode
from tonne.supply.registries import instruction_store
from tonne.supply.registries.gateway import Answer, Instruction
from tonne.supply.retirements.confirmations.audit import ConfirmationSource
from tonne.supply.retirements.confirmations.confirm_lines import plan_confirmations, record_confirmations
from tonne.supply.retirements.confirmations.rows import ConfirmationRow
from tonne.supply.retirements.confirmations.work_list import Task, merge_tasks
from tonne.supply.stock.parcels import instructed_parcels
from tonne.supply.stock.serial_runs import Numbers, join_runs


async def book_answer(
    tx: Connection, instruction: Instruction, answer: Answer, *, settings: Settings, by: By
) -> str | None:
    """Record that the parcels of the instruction are retired; those that are not wait again.

    Returns why the answer cannot be booked, and changes nothing then.
    """
    ids = await instruction_store.list_parcels_any_account(tx, instruction)
    tasks = await instruction_store.list_tasks_any_account(tx, instruction.mode, ids)
    if not tasks:
        return None
    rows = _rows(tasks, answer)
    plan = await plan_confirmations(
        tx, instruction.mode, rows, now=by.at, pages=settings.retirement_pages, instruction_id=instruction.id
    )
    if plan.faults:
        return " ".join(dict.fromkeys(fault.message for fault in plan.faults))[:500]
    source = ConfirmationSource(instruction.registry_account, instruction.id, answer.registry_reference)
    await record_confirmations(tx, instruction.mode, plan, source if instruction.mode is Mode.LIVE else None, by=by)
    await instructed_parcels.release_any_account(tx, instruction.mode, [instruction.id])
    return None


def _rows(tasks: list[Task], answer: Answer) -> list[ConfirmationRow]:
    """A line for each parcel, if the registry has retired its units; otherwise one with what it has retired."""
    asked = join_runs((task.first_number, task.last_number) for task in tasks)
    retired = join_runs(answer.units)
    if all(any(a <= first and last <= b for a, b in retired) for first, last in asked):
        return [_row(number, task, answer) for number, task in enumerate(tasks, 1)]
    [line, *_] = merge_tasks(tasks)
    return [_row(1, line, answer, [*retired])]


def _row(number: int, task: Task, answer: Answer, retired: list[Numbers | str] | None = None) -> ConfirmationRow:
    if answer.retired_on is None:
        raise ValueError("the registry does not say when it has retired the units")
    return ConfirmationRow(
        line=number,
        parcel_id=task.parcel_id,
        serial=task.serial,
        retired_on=answer.retired_on,
        retirement_url=answer.url,
        retired_serials=retired,
    )
