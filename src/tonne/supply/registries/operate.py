"""What an operator asks for: to look a request up, and to compare an account, before it is their time."""

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By
from tonne.supply.registries import account_store, instruction_store


async def retry_request(tx: Connection, request_id: str, *, by: By) -> bool:
    """Look an open request up now. False if it is not open."""
    mode = await instruction_store.hasten(tx, request_id)
    if mode is not None:
        await audit.record(tx, None, "registry_request.retried", by=by, subject_id=request_id, mode=mode)
    return mode is not None


async def check_account(tx: Connection, account_id: str, *, by: By) -> bool:
    """Compare an account with the books at the next run of the job. False if there is none."""
    mode = await account_store.hasten_look(tx, account_id)
    if mode is not None:
        await audit.record(tx, None, "registry_account.check_requested", by=by, subject_id=account_id, mode=mode)
    return mode is not None
