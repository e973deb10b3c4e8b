"""Puro's HTTP interface on loopback, before the books of the simulated registries.

Made from the published interface, and not compared with the registry itself.
"""

import base64
import re
from typing import Any

from aiohttp import web

from tests.support.registries.network import Network
from tonne.platform.db.database import Database
from tonne.platform.values.context import Clock, Mode
from tonne.supply.registries import simulated_store as store
from tonne.supply.registries.adapters.puro import frame_of, serial_of
from tonne.supply.registries.gateway import Instruction, Outcome, Repeat
from tonne.supply.registries.simulated import SimulatedRegistry
from tonne_verify.serials.parse import parse

ACCOUNT = "sim-puro"
NUMBER = "f4826423-21b9-4ee0-905d-311e758ee750"
KEY, SECRET = "key", "s3cret"
INSERT_ISSUANCE = """
INSERT INTO simulated_holdings (registry_account, id, lot_id, active)
VALUES ($1, $2, $2, int8multirange(int8range($3, $4, '[]')))
"""
LIST_ACTIVE = """
SELECT id, lower(part) AS first, upper(part) - 1 AS last FROM simulated_holdings, unnest(active) AS part
WHERE registry_account = $1 ORDER BY id, first
"""
LIST_TRANSACTIONS = """
SELECT key, reference, holding_id, state, created_at, units FROM simulated_retirements
WHERE registry_account = $1 AND ($2::text IS NULL OR key = $2)
  AND (state IN ('pending', 'retired') OR code = 'rejected')
ORDER BY created_at DESC, key
"""


class PuroServer:
    def __init__(self, database: Database, clock: Clock, network: Network) -> None:
        self.network = network
        self._database = database
        self._registry = SimulatedRegistry(database, ACCOUNT, Repeat.KEY, clock)

    @property
    def routes(self) -> list[web.RouteDef]:
        return [
            web.get("/accounts/{number}/balance", self._get_balance),
            web.post("/transactions/retirement", self._retire),
            web.get("/transactions", self._list),
            web.get("/transactions/{id}", self._get),
        ]

    async def deposit(self, serial: str) -> str:
        """Issue these units; returns the id of the holding."""
        units = parse("Puro", serial)
        frame = frame_of(units)

        async def insert(tx: Any) -> None:
            await tx.execute(INSERT_ISSUANCE, ACCOUNT, frame, units.first, units.last)

        await self._database.commit(insert)
        return frame

    async def _get_balance(self, request: web.Request) -> web.Response:
        self._authorise(request)
        self.network.require(request.match_info["number"] == NUMBER, "the account is another one")
        async with self._database.connection() as connection:
            rows = await connection.fetch(LIST_ACTIVE, ACCOUNT)
        return _page(request, [_bundle(row["id"], row["first"], row["last"]) for row in rows])

    async def _retire(self, request: web.Request) -> web.Response:
        self._authorise(request)
        asked = await request.json()
        require = self.network.require
        require(asked["sourceAccountNumber"] == NUMBER, "the account is another one")
        require(asked["beneficiaryType"] == "END_CONSUMER", "the type of beneficiary is another one")
        require(float(asked["unitPrice"]) > 0, "there is no price")
        require(len(asked["beneficiaryName"]) <= 100, "the name is too long")
        require(re.fullmatch(r"[\w-]{1,64}", request.headers["Idempotency-Key"]) is not None, "the key is no key")
        bundles = [parse("Puro", each["certificates"]) for each in asked["bundles"]]
        amounts = [each.last - each.first + 1 for each in bundles]
        require([each["amount"] for each in asked["bundles"]] == amounts, "the amounts are not those of the serials")
        require(len({frame_of(each) for each in bundles}) == 1, "the bundles are of several issuances")
        frame = frame_of(bundles[0])
        instruction = Instruction(
            mode=Mode.TEST,
            id=request.headers["Idempotency-Key"],
            registry_account=ACCOUNT,
            lot_id=frame,
            holding_id=frame,
            units=tuple((each.first, each.last) for each in bundles),
            beneficiary=asked["beneficiaryName"].rpartition(" on behalf of ")[2],
            reference=asked["retirementPurpose"],
        )
        answer = await self._registry.retire(instruction)
        if answer.outcome is Outcome.DECLINED:
            raise web.HTTPBadRequest(text='{"message": "The certificates cannot be retired."}', content_type=JSON)
        return web.json_response(await self._transaction(instruction.id))

    async def _list(self, request: web.Request) -> web.Response:
        self._authorise(request)
        return _page(request, await self._transactions())

    async def _get(self, request: web.Request) -> web.Response:
        """Pending transactions are decided when they are looked at."""
        self._authorise(request)
        found = await self._transaction(request.match_info["id"])
        if found["completedOn"] is None and found["rejectedOn"] is None:
            await self._database.commit(_finish, found["transactionId"])
            found = await self._transaction(found["transactionId"])
        return web.json_response(found)

    async def _transaction(self, id_: str) -> dict[str, Any]:
        found = await self._transactions(id_)
        if not found:
            raise web.HTTPNotFound
        return found[0]

    async def _transactions(self, id_: str | None = None) -> list[dict[str, Any]]:
        async with self._database.connection() as connection:
            rows = await connection.fetch(LIST_TRANSACTIONS, ACCOUNT, id_)
        return [
            {
                "transactionId": row["key"],
                "type": "Retirement",
                "completedOn": row["created_at"].isoformat() if row["state"] == "retired" else None,
                "rejectedOn": row["created_at"].isoformat() if row["state"] == "declined" else None,
                "bundles": [_bundle(row["holding_id"], each.lower, each.upper - 1) for each in row["units"]],
                "retirementPurpose": row["reference"],
                "publicStatementUrl": f"https://retirements.puro.earth/retirement-statement/{row['key']}",
            }
            for row in rows
        ]

    def _authorise(self, request: web.Request) -> None:
        given = request.headers.get("Authorization", "").removeprefix("Basic ")
        if base64.b64decode(given).decode() != f"{KEY}:{SECRET}":
            raise web.HTTPUnauthorized


JSON = "application/json"


async def _finish(tx: Any, key: str) -> None:
    if (found := await store.find(tx, ACCOUNT, key)) is not None:
        await store.finish(tx, ACCOUNT, found)


def _bundle(frame: str, first: int, last: int) -> dict[str, Any]:
    return {"certificates": serial_of(frame, first, last), "volume": last - first + 1}


def _page(request: web.Request, found: list[dict[str, Any]]) -> web.Response:
    limit, offset = int(request.query["limit"]), int(request.query["offset"])
    pagination = {"total": len(found), "offset": offset, "limit": limit}
    return web.json_response({"pagination": pagination, "data": found[offset : offset + limit]})
