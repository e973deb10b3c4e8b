"""Isometric's HTTP interface on loopback, before the books of the simulated registries.

Made from the published interface, and not compared with the registry itself. Of a split batch, the first units are
taken.
"""

import json
import re
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from tests.support.registries.isometric_contract import CreateRetirement, PageQuery, find_breach
from tests.support.registries.network import Network
from tonne.platform.db.database import Database
from tonne.platform.values.context import Clock, Mode, new_id
from tonne.supply.registries.gateway import Instruction, Outcome, Repeat
from tonne.supply.registries.simulated import SimulatedRegistry
from tonne_verify.serials.parse import parse
from tonne_verify.serials.units import UnitRange, show

_Handler = Callable[[web.Request], Awaitable[web.Response]]
T = TypeVar("T")
ACCOUNT = "sim-isometric"
ORGANISATION = "org_1GB56M1ST1S0GVNA"
SUPPLIER = "spl_1CC712KFS1S0YKPS"
CLIENT_SECRET, ACCESS_TOKEN = "client-secret", "access-token"
TAKEN = "-t"
INSERT_BATCH = """
INSERT INTO simulated_holdings (registry_account, id, lot_id, active)
VALUES ($1, $2, $3, int8multirange(int8range($4, $5, '[]')))
"""
# The lot of a batch is the serial that was issued, without its begin: ids that are made of it must not be too long.
PREFIX = "ISO-1-"
FIND_BATCH = """
SELECT holding.id, holding.lot_id, holding.parent_id, holding.is_used, lower(holding.active) AS first,
       upper(holding.active) - 1 AS last, child.id AS child_id, taken.key AS retirement_id,
       lower(taken.units) AS taken_first, upper(taken.units) - 1 AS taken_last, taken.created_at
FROM simulated_holdings holding
LEFT JOIN simulated_holdings child
       ON child.registry_account = holding.registry_account AND child.parent_id = holding.id
LEFT JOIN simulated_retirements taken
       ON taken.registry_account = holding.registry_account AND taken.holding_id = holding.id
      AND taken.state = 'retired'
WHERE holding.registry_account = $1 AND holding.id = $2
"""
FIND_RETIREMENT = """
SELECT key, reference, holding_id, created_at, upper(units) - lower(units) AS kgs FROM simulated_retirements
WHERE registry_account = $1 AND key = $2 AND state = 'retired'
"""

LIST_ACTIVE = """
SELECT id, upper(active) - lower(active) AS kgs FROM simulated_holdings
WHERE registry_account = $1 AND NOT is_used ORDER BY id
"""
LIST_RETIREMENTS = """
SELECT key FROM simulated_retirements WHERE registry_account = $1 AND state = 'retired' ORDER BY created_at DESC, key
"""


class IsometricServer:
    """`includes_last` says what the last number of a serial means, which the registry does not publish."""

    def __init__(self, database: Database, clock: Clock, network: Network, *, includes_last: bool = True) -> None:
        self.network = network
        # The last ones, by method and path.
        self.answers: deque[tuple[str, str, Any]] = deque(maxlen=100)
        self._database = database
        self._registry = SimulatedRegistry(database, ACCOUNT, Repeat.HOLDING, clock)
        self._beyond = 0 if includes_last else 1

    @property
    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/organisations/{id}/credit_batches", self._checked(self._list)),
            web.get("/credit_batches/{id}", self._checked(self._get_batch)),
            web.get("/organisations/{id}/credit_balance", self._checked(self._get_balance)),
            web.post("/retirements", self._checked(self._retire)),
            web.get("/retirements", self._checked(self._list_retirements)),
            web.get("/retirements/{id}", self._checked(self._get_retirement)),
            web.get("/retirements/{id}/credit_batches", self._checked(self._get_taken)),
        ]

    def _checked(self, handler: _Handler) -> _Handler:
        """Notes an answer that is not what the interface says."""

        async def checked(request: web.Request) -> web.Response:
            response = await handler(request)
            document = json.loads(response.text or "null")
            self.answers.append((request.method, request.path, document))
            if (breach := find_breach(request.method, request.path, document)) is not None:
                self.network.note_breach(breach)
            return response

        return checked

    async def deposit(self, serial: str) -> str:
        """Issue these units; returns the id of the batch."""
        id_ = new_id("ctb")
        await self._database.commit(_insert, id_, parse("Isometric", serial))
        return id_

    async def retire_for_another(self, batch_id: str, kgs: int) -> None:
        """Somebody else uses a batch, who has access to the account."""
        await self._serve(batch_id, kgs, "Somebody else. No reference.")

    async def _list(self, request: web.Request) -> web.Response:
        self._authorise(request)
        self.network.require(request.query.get("status") == "active", "only active batches are asked for")
        return await _page(
            self._read(dict(request.query), PageQuery), [row["id"] for row in await self._active()], self._batch
        )

    async def _active(self) -> list[Any]:
        async with self._database.connection() as connection:
            return await connection.fetch(LIST_ACTIVE, ACCOUNT)

    async def _list_retirements(self, request: web.Request) -> web.Response:
        self._authorise(request)
        self.network.require(request.query.get("owner_org_id") == ORGANISATION, "the organisation is another one")
        async with self._database.connection() as connection:
            rows = await connection.fetch(LIST_RETIREMENTS, ACCOUNT)
        return await _page(self._read(dict(request.query), PageQuery), [row["key"] for row in rows], self._retirement)

    async def _get_balance(self, request: web.Request) -> web.Response:
        self._authorise(request)
        active = _size(sum(row["kgs"] for row in await self._active()))
        total = {"active_credits_total": active, "retired_credits_total": _size(0)}
        parts: dict[str, list[object]] = {"supplier_balances": [], "project_balances": [], "order_balances": []}
        return web.json_response({"total": total, **parts})

    async def _get_batch(self, request: web.Request) -> web.Response:
        self._authorise(request)
        return web.json_response(await self._batch(request.match_info["id"]))

    async def _retire(self, request: web.Request) -> web.Response:
        self._authorise(request)
        asked = self._read(await request.json(), CreateRetirement)
        ours = asked.owner_organisation_id == asked.beneficiary_organisation_id == ORGANISATION
        self.network.require(ours and asked.supplier_id == SUPPLIER, "the organisation or supplier is another one")
        self.network.require(bool(asked.retirement_purposes), "there is no purpose")
        self.network.require(len(asked.credit_batch_quantities) == 1, "a retirement takes one batch")
        [part] = asked.credit_batch_quantities
        answer, key = await self._serve(part.credit_batch_id, part.credit_quantity_kg, asked.notes or "")
        if answer is Outcome.RETIRED:
            return web.json_response(await self._retirement(key))
        if answer is Outcome.DECLINED:
            raise _refusal("The batch cannot be retired.")
        raise web.HTTPInternalServerError

    async def _serve(self, batch_id: str, kgs: int, notes: str) -> tuple[Outcome, str]:
        named = re.fullmatch(r"On behalf of (.*)\. T-[0-9a-f]{16}", notes)
        instruction = Instruction(
            mode=Mode.TEST,
            id=new_id("ret"),
            registry_account=ACCOUNT,
            lot_id=batch_id,
            holding_id=batch_id,
            units=((1, kgs),),
            beneficiary=named[1] if named else "",
            reference=notes,
        )
        return (await self._registry.retire(instruction)).outcome, instruction.id

    async def _get_retirement(self, request: web.Request) -> web.Response:
        self._authorise(request)
        return web.json_response(await self._retirement(request.match_info["id"]))

    async def _get_taken(self, request: web.Request) -> web.Response:
        self._authorise(request)
        made = await self._find_retirement(request.match_info["id"])
        batch = await self._batch(made["holding_id"])
        if batch["status"] == "split":
            batch = await self._batch(made["holding_id"] + TAKEN)
        return web.json_response({"nodes": [batch], "total_count": 1})

    async def _find_retirement(self, key: str) -> Any:
        async with self._database.connection() as connection:
            row = await connection.fetchrow(FIND_RETIREMENT, ACCOUNT, key)
        if row is None:
            raise web.HTTPNotFound
        return row

    async def _retirement(self, key: str) -> dict[str, Any]:
        row = await self._find_retirement(key)
        return {
            "id": row["key"],
            "retired_at": row["created_at"].isoformat(),
            "purposes": ["public_environmental_claims"],
            "beneficiary": _organisation(),
            "owner": _organisation(),
            "credit_batch_size_total": _size(row["kgs"]),
            "url": f"https://to.isometric.com/{row['key']}",
            "notes": row["reference"],
        }

    async def _batch(self, id_: str) -> dict[str, Any]:
        is_taken = id_.endswith(TAKEN)
        async with self._database.connection() as connection:
            row = await connection.fetchrow(FIND_BATCH, ACCOUNT, id_.removesuffix(TAKEN))
        if row is None or (is_taken and row["child_id"] is None):
            raise web.HTTPNotFound
        lot = parse("Isometric", serial_of(row["lot_id"]))
        retirement_id, children, status = None, (None, None), "active"
        first, last = row["first"], row["last"]
        if is_taken or (row["is_used"] and row["child_id"] is None):
            first, last, status, retirement_id = row["taken_first"], row["taken_last"], "retired", row["retirement_id"]
        elif row["is_used"]:
            first, last, status = row["taken_first"], lot.last, "split"
            children = (row["id"] + TAKEN, row["child_id"])
        return {
            "id": id_,
            "serial_number": show(lot, first, last + self._beyond),
            "status": status,
            "size": _size(last - first + 1),
            "issued_at": "2024-11-05T10:00:00Z",
            "retired_at": row["created_at"].isoformat() if retirement_id else None,
            "delivered_at": None,
            "sequestered_on": "2024-10-01",
            "country_of_issue": "GBR",
            "supplier_id": SUPPLIER,
            "parent_id": row["id"] if is_taken else row["parent_id"],
            "left_child_id": children[0],
            "right_child_id": children[1],
            "issuance_id": "iss_1EWT8R5FY1S0GFCY",
            "delivery_id": None,
            "beneficiary": _organisation() if retirement_id else None,
            "retirement_id": retirement_id,
            "removal_id": "rmv_1EEM6NJXX1S0EXKD",
            "owner": _organisation(),
            "project_id": "prj_1CTWZQGKE1S0VAXA",
            "carbon_removal_data": None,
            "ccp_approved": False,
        }

    def _read(self, given: Any, type_: type[T]) -> T:
        """A request that is not what the interface says is refused."""
        breach = ""
        try:
            return msgspec.convert(given, type_, strict=False)
        except msgspec.ValidationError as error:
            breach = str(error)
        self.network.require(False, breach)
        raise AssertionError(breach)

    def _authorise(self, request: web.Request) -> None:
        given = request.headers.get("X-Client-Secret"), request.headers.get("Authorization")
        if given != (CLIENT_SECRET, f"Bearer {ACCESS_TOKEN}"):
            raise web.HTTPUnauthorized


def serial_of(lot_id: str) -> str:
    """That was issued."""
    return PREFIX + lot_id


async def _insert(tx: Any, id_: str, units: UnitRange) -> None:
    await tx.execute(INSERT_BATCH, ACCOUNT, id_, units.text.removeprefix(PREFIX), units.first, units.last)


async def _page(asked: PageQuery, ids: Sequence[str], read: Callable[[str], Awaitable[dict[str, Any]]]) -> web.Response:
    start = int(asked.after or "0")
    end = start + asked.first
    page = {
        "has_previous_page": start > 0,
        "start_cursor": str(start),
        "has_next_page": end < len(ids),
        "end_cursor": str(end),
    }
    nodes = [await read(id_) for id_ in ids[start:end]]
    return web.json_response({"nodes": nodes, "total_count": len(ids), "page_info": page})


def _organisation() -> dict[str, Any]:
    return {"id": ORGANISATION, "name": "Tonne", "domain": None}


def _size(kgs: int) -> dict[str, Any]:
    return {"credits": kgs / 1000, "credit_kgs": kgs}


def _refusal(message: str) -> web.HTTPUnprocessableEntity:
    body = web.json_response({"detail": [{"loc": ["body"], "msg": message, "type": "value_error"}]}).text
    return web.HTTPUnprocessableEntity(text=body, content_type="application/json")
