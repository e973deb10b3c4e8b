"""SQL of status lists."""

from tonne.platform.db.database import Connection, optional
from tonne.platform.values.context import Mode
from tonne.supply.certificates.credentials.credential import LIST_LENGTH, STATUS_VALUES, StatusValue
from tonne.supply.certificates.record import CertificateState

FIND_STATUS_INDEX = """
SELECT id FROM log_statements WHERE mode = $1 AND kind = 'certificate.issued' AND subject = $2
"""


async def find_status_index(connection: Connection, mode: Mode, number: str) -> int | None:
    """The place of a certificate in the status lists: the id of the statement that it was issued."""
    return optional(int, await connection.fetchval(FIND_STATUS_INDEX, mode, number))


# The index `certificates_changed` has only certificates that are not valid.
READ_STATUSES = """
SELECT status_index, state FROM certificates
WHERE mode = $1 AND status_index >= $2 AND status_index < $3 ORDER BY status_index
"""


async def read_statuses_any_account(connection: Connection, mode: Mode, number: int) -> list[tuple[int, StatusValue]]:
    """Positions and values of one list: only what is not valid."""
    first = number * LIST_LENGTH
    rows = await connection.fetch(READ_STATUSES, mode, first, first + LIST_LENGTH)
    return [(row["status_index"] - first, STATUS_VALUES[CertificateState(row["state"])]) for row in rows]


HAS_STATEMENTS = "SELECT EXISTS (SELECT FROM log_statements WHERE id >= $1 AND id < $2)"


async def has_list(connection: Connection, number: int) -> bool:
    """Whether any certificate may have a place in this list."""
    first = number * LIST_LENGTH
    return bool(await connection.fetchval(HAS_STATEMENTS, first, first + LIST_LENGTH))
