"""HTTP endpoints: export and erase the data of a person."""

from msgspec import Struct

from tonne.apps.privacy.erase_person import erase_person
from tonne.apps.privacy.export_person import export_person
from tonne.apps.privacy.model import PersonInUse, PersonInvalid, PersonsNotAllowed, Search
from tonne.apps.privacy.schemas import ErasureOut, PersonExportOut, PersonIn, erasure_out, record_out
from tonne.platform.db.database import Connection, Database
from tonne.platform.events.audit import record as audit
from tonne.platform.events.notification import Notifier, WorkKind
from tonne.platform.http.json_body import read
from tonne.platform.http.route import Request, Response, Route, RouteMaker, json_response
from tonne.platform.values.context import Clock, Mode
from tonne.selling.accounts.keys import store as key_store
from tonne.selling.accounts.keys.restrictions import KeyRight


class PersonEndpoints(Struct, frozen=True):
    database: Database
    clock: Clock
    notifier: Notifier

    async def export(self, request: Request) -> Response:
        """Export the data of a person.

        Returns everything that the organisation holds about a person, in both modes: orders, events, certificates,
        checkouts, estimates and mails. Needs a live key with the right `persons`. A POST, so that the address is not
        part of a URL.
        """
        search = _search(request)
        await self.database.run(_require_right, request)
        async with self.database.long_snapshot() as tx:
            records = await export_person(tx, search)
        by, found_by = request.actor.at(self.clock()), search.person.found_by
        async with self.database.transaction() as tx:
            await audit.record(
                tx, search.organisation_id, "person.exported", by=by, found_by=found_by, records=len(records)
            )
        return json_response(PersonExportOut([record_out(record) for record in records]))

    async def erase(self, request: Request) -> Response:
        """Erase the data of a person.

        Replaces the address, private names and what your metadata says about them by `erased`, in orders, events,
        certificates, checkouts, estimates and mails of the organisation, in both modes. Amounts, quantities, numbers
        and serial numbers stay, and so do invoices. It cannot be undone.

        Refused with `person_in_use` while an order of the person is open. Every changed order gets an event
        `order.person_erased`. Repeat the request if you get no answer. Needs a live key with the right `persons`.
        """
        search = _search(request)
        await self.database.run(_require_right, request)
        async with self.database.long_connection() as connection:
            erasure = await erase_person(connection, search, actor=request.actor, clock=self.clock)
        self.notifier.notify(WorkKind.EVENTS)
        return json_response(erasure_out(erasure))


def person_routes(endpoints: PersonEndpoints) -> list[Route]:
    route = RouteMaker("Persons", body=PersonIn)
    return [
        route(
            "POST /v1/persons/export",
            endpoints.export,
            PersonExportOut,
            PersonsNotAllowed,
            PersonInvalid,
            operation_id="exportPerson",
            example={"email": "ada@example.com"},
        ),
        route(
            "POST /v1/persons/erase",
            endpoints.erase,
            ErasureOut,
            PersonsNotAllowed,
            PersonInvalid,
            PersonInUse,
            operation_id="erasePerson",
            example={"email": "ada@example.com"},
        ),
    ]


def _search(request: Request) -> Search:
    body = read(request.json(), PersonIn)
    return Search(body.person, request.scope.organisation_id, body.account_type)


async def _require_right(connection: Connection, request: Request) -> None:
    """Raises PersonsNotAllowed. A test key never has the right."""
    rights = await key_store.find_key_rights(connection, request.scope.organisation_id, request.actor.name)
    if request.scope.mode is not Mode.LIVE or KeyRight.PERSONS not in rights:
        raise PersonsNotAllowed
