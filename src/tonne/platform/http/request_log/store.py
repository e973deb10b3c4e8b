"""SQL for the log of requests."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

import asyncpg

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode, Tenant
from tonne.platform.values.paging import Position

# Partitions of the table, one per day in turn.
SLOTS = 10
# How many rows a page with filters examines at most; a link continues from there.
EXAMINED = 10_000


class RequestRow(NamedTuple):
    slot: int
    organisation_id: str
    mode: Mode
    at: datetime
    request_id: str
    key_id: str
    account_id: str | None
    method: str
    route: str
    status: int
    duration_us: int
    error_code: str | None
    error_message: str | None = None
    body: str | None = None


# What many requests have in common: organisation, mode, key, account, method, route and status.
RequestKind = tuple[str, Mode, str, str | None, str, str, int]


class RequestFilter(NamedTuple):
    """None or empty values select all."""

    status_from: int = 0
    status_to: int = 999
    method: str | None = None
    route: str | None = None
    key_id: str | None = None


class RequestPage(NamedTuple):
    """`examined_to` is where the search goes on, None at the end of the log."""

    rows: list[RequestRow]
    examined_to: Position | None


def slot_of(moment: datetime) -> int:
    """The partition of its day (UTC)."""
    return int(moment.timestamp() // 86_400) % SLOTS


# `synchronous_commit = off`: no other commit waits for this one. A crash of the database loses the last entries.
INSERT_SUCCEEDED = f"""
INSERT INTO api_requests (slot, organisation_id, mode, at, request_id, key_id, account_id, method, route, status,
                          duration_us)
SELECT floor(request.at / 86400)::bigint % {SLOTS}, kind.organisation_id, kind.mode, to_timestamp(request.at),
       request.request_id, kind.key_id, kind.account_id, kind.method, kind.route, kind.status, request.duration_us
FROM unnest($1::int[], $2::float8[], $3::text[], $4::int[]) AS request (kind, at, request_id, duration_us)
JOIN unnest($5::text[], $6::mode[], $7::text[], $8::text[], $9::text[], $10::text[], $11::smallint[]) WITH ORDINALITY
    AS kind (organisation_id, mode, key_id, account_id, method, route, status, number) ON kind.number = request.kind
WHERE set_config('synchronous_commit', 'off', true) = 'off'
"""  # noqa: S608 - a number of ours


async def insert_succeeded(
    connection: Connection, kinds: Sequence[RequestKind], requests: Sequence[tuple[int, float, str, int]]
) -> None:
    """Each request is the number of its kind, from 1, its time, id and duration.

    Most requests are of few kinds: what they have in common is encoded once, which takes a third of the time.
    """
    await connection.execute(INSERT_SUCCEEDED, *zip(*requests, strict=True), *zip(*kinds, strict=True))


_ROW = """
slot, organisation_id, mode, at, request_id, key_id, account_id, method, route, status, duration_us, error_code,
error_message, body
"""
INSERT_FAILED = f"""
INSERT INTO api_requests ({_ROW})
SELECT {_ROW}
FROM unnest($1::smallint[], $2::text[], $3::mode[], $4::timestamptz[], $5::text[], $6::text[], $7::text[], $8::text[],
            $9::text[], $10::smallint[], $11::int[], $12::text[], $13::text[], $14::text[]) AS request ({_ROW})
WHERE set_config('synchronous_commit', 'off', true) = 'off'
"""  # noqa: S608 - columns above


async def insert_failed(connection: Connection, rows: Sequence[RequestRow]) -> None:
    await connection.execute(INSERT_FAILED, *zip(*rows, strict=True))


# Without the texts, which only the page of one request shows.
_LISTED = """
slot, organisation_id, mode, at, request_id, key_id, account_id, method, route, status, duration_us, error_code
"""
_SELECTED = """
status BETWEEN $7 AND $8 AND ($9::text IS NULL OR method = $9) AND ($10::text IS NULL OR route = $10)
AND ($11::text IS NULL OR key_id = $11)
"""
LIST_REQUESTS = f"""
WITH examined AS MATERIALIZED (
    SELECT {_LISTED} FROM api_requests
    WHERE organisation_id = $1 AND mode = $2 AND (at, request_id) < ($3, $4) AND at >= $5
    ORDER BY at DESC, request_id DESC LIMIT $12
), selected AS (
    SELECT {_LISTED} FROM examined WHERE {_SELECTED} ORDER BY at DESC, request_id DESC LIMIT $6
), last AS (
    SELECT {_LISTED} FROM examined WHERE (SELECT count(*) FROM examined) = $12 ORDER BY at, request_id LIMIT 1
)
SELECT {_LISTED}, true AS is_selected FROM selected
UNION ALL
SELECT {_LISTED}, false FROM last
ORDER BY at DESC, request_id DESC
"""  # noqa: S608 - our own words
# The same for failed requests only, for which there is an index.
LIST_FAILED_REQUESTS = LIST_REQUESTS.replace("AND at >= $5", "AND at >= $5 AND status >= 400")


async def list_requests(
    connection: Connection, tenant: Tenant, requested: RequestFilter, *, start: Position, since: datetime, limit: int
) -> RequestPage:
    """Newest first. Examines at most `EXAMINED` rows, so that a filter that selects few of them is not slow."""
    statement = LIST_FAILED_REQUESTS if requested.status_from >= 400 else LIST_REQUESTS
    examined = limit if requested == RequestFilter() else EXAMINED
    place = (*tenant, start.created_at, start.id, since, limit)
    rows = await connection.fetch(statement, *place, *requested, examined)
    selected = [_row(row) for row in rows if row["is_selected"]]
    last = [Position(row["at"], row["request_id"]) for row in rows if not row["is_selected"]]
    return RequestPage(selected, last[0] if last else None)


FIND_REQUESTS = f"""
SELECT {_ROW} FROM api_requests
WHERE organisation_id = $1 AND mode = $2 AND request_id = $3 AND at >= $4 ORDER BY at DESC LIMIT 20
"""  # noqa: S608 - columns above


async def find_requests(connection: Connection, tenant: Tenant, request_id: str, since: datetime) -> list[RequestRow]:
    """The requests with this id, newest first: a client may repeat a request with the same id."""
    return [_row(row) for row in await connection.fetch(FIND_REQUESTS, *tenant, request_id, since)]


ERASE_REQUEST_TEXTS = """
UPDATE api_requests SET error_message = NULL, body = NULL
WHERE ($1::text IS NULL OR organisation_id = $1) AND status >= 400
  AND EXISTS (SELECT FROM unnest($2::text[]) AS value
              WHERE strpos(lower(concat(error_message, ' ', body)), lower(value)) > 0)
"""


async def erase_request_texts(tx: Connection, organisation_id: str | None, values: Sequence[str]) -> int:
    """Delete bodies and messages that contain one of these texts, although they are masked. Returns their number."""
    return int((await tx.execute(ERASE_REQUEST_TEXTS, organisation_id, values)).split()[-1])


HAS_REQUESTS = "SELECT EXISTS (SELECT FROM api_requests WHERE slot = $1)"


async def has_requests_any_account(connection: Connection, slot: int) -> bool:
    return bool(await connection.fetchval(HAS_REQUESTS, slot))


async def truncate_slot(tx: Connection, slot: int) -> None:
    await tx.execute(f"TRUNCATE api_requests_{slot:d}")


# Rows of several partitions may have the same ctid.
# By their place in the table: a join would read all requests for every batch.
DELETE_REQUESTS = """
DELETE FROM api_requests
WHERE slot = $1 AND ctid = ANY (ARRAY(SELECT ctid FROM api_requests WHERE slot = $1 AND at < $2 LIMIT $3))
"""


async def delete_requests(connection: Connection, slot: int, before: datetime, limit: int) -> int:
    """How many were deleted of this partition."""
    return int((await connection.execute(DELETE_REQUESTS, slot, before, limit)).split()[-1])


def _row(row: asyncpg.Record) -> RequestRow:
    values = {name: row[name] for name in RequestRow._fields if name in row}
    return RequestRow(**{**values, "mode": Mode(values["mode"])})
