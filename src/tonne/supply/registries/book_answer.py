"""Book what a registry has retired, by the function that imports confirmations: there is one way into the books."""

import dataclasses
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from tonne.platform.db.database import Connection
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import By, Mode
from tonne.supply.registries import instruction_store
from tonne.supply.registries.gateway import Answer, Instruction
from tonne.supply.retirements.confirmations.audit import ConfirmationSource
from tonne.supply.retirements.confirmations.confirm_lines import plan_confirmations, record_confirmations
from tonne.supply.retirements.confirmations.rows import ConfirmationRow
from tonne.supply.retirements.confirmations.work_list import Task
from tonne.supply.stock.parcels import instructed_parcels
from tonne.supply.stock.serial_runs import Numbers, join_runs


class RetiredUnits(NamedTuple):
    instruction: Instruction
    answer: Answer


async def book_answers(
    tx: Connection, retired: Sequence[RetiredUnits], *, settings: Settings, by: By
) -> dict[str, str]:
    """Record that the parcels of these instructions are retired; those that are not wait again.

    All together, so that an order with several parcels is looked at once. Returns why answers cannot be booked, by
    instruction, and changes nothing for them.
    """
    problems: dict[str, str] = {}
    for mode in Mode:
        of_mode = [each for each in retired if each.instruction.mode is mode]
        if of_mode:
            problems |= await _book(tx, mode, of_mode, settings, by)
    return problems


async def _book(
    tx: Connection, mode: Mode, retired: Sequence[RetiredUnits], settings: Settings, by: By
) -> dict[str, str]:
    parcels = await instruction_store.list_parcels_any_account(tx, mode, [each.instruction.id for each in retired])
    tasks: defaultdict[str, list[Task]] = defaultdict(list)
    for task in await instruction_store.list_tasks_any_account(tx, mode, parcels):
        tasks[parcels[task.parcel_id]].append(task)
    rows = {
        each.instruction.id: _rows(tasks[each.instruction.id], each.answer)
        for each in retired
        if each.instruction.id in tasks
    }
    problems: dict[str, str] = {}
    while left := {id_: of_one for id_, of_one in rows.items() if id_ not in problems}:
        numbered = [(id_, dataclasses.replace(row, line=line)) for line, (id_, row) in enumerate(_each(left), 1)]
        lines = [row for _, row in numbered]
        plan = await plan_confirmations(
            tx, mode, lines, now=by.at, pages=settings.retirement_pages, instruction_ids=left.keys()
        )
        if not plan.faults:
            accounts = sorted({each.instruction.registry_account for each in retired})
            source = ConfirmationSource(", ".join(accounts), ", ".join(left))
            await record_confirmations(tx, mode, plan, source if mode is Mode.LIVE else None, by=by)
            await instructed_parcels.release_any_account(tx, mode, left)
            break
        for fault in plan.faults:
            problems[numbered[fault.line - 1][0]] = fault.message[:500]
    return problems


def _each(rows: Mapping[str, Sequence[ConfirmationRow]]) -> Iterator[tuple[str, ConfirmationRow]]:
    for instruction_id, of_one in rows.items():
        yield from ((instruction_id, row) for row in of_one)


def _rows(tasks: list[Task], answer: Answer) -> list[ConfirmationRow]:
    """A line for each parcel, if the registry has retired its units. Otherwise each has what it gets of the others."""
    asked = join_runs((task.first_number, task.last_number) for task in tasks)
    retired = join_runs(answer.units)
    if all(any(a <= first and last <= b for a, b in retired) for first, last in asked):
        return [_row(task, answer) for task in tasks]
    # If there are more than were asked for, the rest is a difference.
    return [_row(task, answer, [part]) for task, part in _share_out(tasks, retired)]


def _share_out(tasks: Sequence[Task], retired: Sequence[Numbers]) -> Iterator[tuple[Task, Numbers]]:
    """Parcels keep the units that they hold. The others go to what is left of the parcels, in this order."""
    held = [(task, part) for task in tasks for part in _held(task, retired)]
    yield from held
    foreign = deque(_gaps(retired, [part for _, part in held]))
    for task in tasks:
        for first, last in _gaps([(task.first_number, task.last_number)], _held(task, retired)):
            room = last - first + 1
            while room and foreign:
                start, end = foreign.popleft()
                stop = min(end, start + room - 1)
                yield task, (start, stop)
                room -= stop - start + 1
                if stop < end:
                    foreign.appendleft((stop + 1, end))


def _held(task: Task, retired: Sequence[Numbers]) -> list[Numbers]:
    parts = [(max(first, task.first_number), min(last, task.last_number)) for first, last in retired]
    return [(first, last) for first, last in parts if first <= last]


def _gaps(runs: Sequence[Numbers], parts: Sequence[Numbers]) -> list[Numbers]:
    """What remains of the runs without these parts of them."""
    gaps: list[Numbers] = []
    ordered = sorted(parts)
    for first, last in runs:
        for start, end in (each for each in ordered if first <= each[0] <= last):
            if first < start:
                gaps.append((first, start - 1))
            first = end + 1  # noqa: PLW2901 - what is left of the run
        if first <= last:
            gaps.append((first, last))
    return gaps


def _row(task: Task, answer: Answer, retired: list[Numbers | str] | None = None) -> ConfirmationRow:
    if answer.retired_on is None:
        raise ValueError("the registry does not say when it has retired the units")
    return ConfirmationRow(
        line=0,
        parcel_id=task.parcel_id,
        serial=task.serial,
        retired_on=answer.retired_on,
        retirement_url=answer.url,
        retired_serials=retired,
    )
