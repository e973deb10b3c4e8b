"""Import a file about what the operator retired at the registries: all or nothing."""

from collections.abc import Sequence
from datetime import datetime
from functools import partial
from hashlib import sha256

from tonne.platform.db.database import Connection
from tonne.platform.documents.sheets.errors import SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile, read_sheet
from tonne.platform.settings.settings import RegistryPage
from tonne.platform.values.context import Actor, Mode
from tonne.supply.retirements.confirmations import confirm_lines
from tonne.supply.retirements.confirmations.audit import ConfirmationSource
from tonne.supply.retirements.confirmations.rows import ConfirmationRow, check_row
from tonne.supply.retirements.confirmations.work_list import EXPORT_COLUMNS
from tonne.supply.stock.lots.lots import latest_day


async def import_confirmations(
    tx: Connection,
    mode: Mode,
    file: SheetFile,
    *,
    now: datetime,
    actor: Actor,
    pages: Sequence[RegistryPage] = (),
    reference: str | None = None,
) -> confirm_lines.ConfirmationReport:
    """Record every retirement in the file, or raise SheetInvalid with every error.

    `reference` is the registry's number of the retirement, for the audit log.
    """
    sheet = read_sheet(file, ConfirmationRow, partial(check_row, latest_day(now)), ignored=EXPORT_COLUMNS)
    plan = await confirm_lines.plan_confirmations(tx, mode, sheet.rows, now=now, pages=pages)
    for fault in plan.faults:
        sheet.add_error(*fault)
    if sheet.errors:
        # A line of many parcels may have the same error for each.
        raise SheetInvalid(sorted(dict.fromkeys(sheet.errors), key=lambda error: error.line or 0))
    source = ConfirmationSource(file.name, sha256(file.content).hexdigest(), reference)
    return await confirm_lines.record_confirmations(tx, mode, plan, source, now=now, actor=actor)
