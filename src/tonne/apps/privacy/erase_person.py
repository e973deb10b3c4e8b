"""Erases a person: address, private names and what clients wrote about them become `erased`, all sums stay.

Erasures are repeated after a restore: the backup may be older than they are.
"""

from collections.abc import Sequence

import structlog
from msgspec.structs import asdict

from tonne.apps.privacy import store
from tonne.apps.privacy.erase_order import erase_checkout, erase_estimate, erase_order, plan_alone
from tonne.apps.privacy.export_person import find_person, list_blockers
from tonne.apps.privacy.model import Counts, Erasure, Found, Person, PersonInUse, Search, redaction_of
from tonne.apps.privacy.store import list_values_any_account
from tonne.channels.checkout.model import CheckoutStatus
from tonne.channels.checkout.person_store import lock_texts
from tonne.platform.db.database import Connection
from tonne.platform.db.session_settings import lift_limits
from tonne.platform.documents.mail.person_store import erase_mail
from tonne.platform.events.audit import record as audit
from tonne.platform.http.request_log.store import erase_request_texts
from tonne.platform.process.progress import progress
from tonne.platform.values.context import Actor, By, Clock, new_id, replace

_log = structlog.get_logger()


async def erase_person(connection: Connection, search: Search, *, actor: Actor, clock: Clock) -> Erasure:
    """Use a connection outside of a transaction: every order is erased in a transaction of its own.

    Raises PersonInUse, and then changes nothing, if an order, refund, mail or setting still needs the data. Repeating
    it continues an erasure that was interrupted.
    """
    async with connection.transaction():
        await lift_limits(connection)
        found = await find_person(connection, search)
        blockers = await list_blockers(connection, found)
    if blockers:
        raise PersonInUse(blockers)
    erasure = await _begin(connection, search, by=actor.at(clock()))
    counts = Counts()
    with progress("Erasing", len(found.orders)) as advance:
        for item in found.orders:
            async with connection.transaction():
                await lift_limits(connection)
                await erase_order(connection, search.person, item, counts, by=actor.at(clock()))
            advance(1)
    await _erase_rest(connection, search.person, found, counts)
    async with connection.transaction():
        await lift_limits(connection)
        await erase_request_texts(connection, search.organisation_id, search.person.terms)
    return await _finish(connection, erasure, counts, by=actor.at(clock()))


async def _begin(connection: Connection, search: Search, *, by: By) -> Erasure:
    """The record is written first: after a restore, an erasure that was interrupted is known, too."""
    async with connection.transaction():
        salt = await store.choose_salt_any_account(connection)
        person_hash = search.person.hash(salt)
        erasure = await store.find_unfinished(connection, search.organisation_id, search.mode, person_hash)
        if erasure is None:
            erasure = Erasure(
                new_id("era"),
                search.organisation_id,
                search.mode,
                search.person.found_by,
                salt,
                person_hash,
                by.at,
                str(by.actor),
                None,
                {},
            )
            await store.insert_erasure(connection, search.organisation_id, erasure)
    return erasure


async def _erase_rest(connection: Connection, person: Person, found: Found, counts: Counts) -> None:
    """What belongs to no order."""
    for item in found.checkouts:
        async with connection.transaction():
            checkout = await lock_texts(connection, item.scope, item.id, "")
            if checkout is None:
                continue
            if checkout.status is not CheckoutStatus.CLOSED:
                raise PersonInUse([f"Checkout {checkout.id} is open."])
            await erase_checkout(connection, item.scope, checkout, plan_alone(person, checkout), counts)
    redaction = redaction_of([person.value])
    for item in found.estimates:
        async with connection.transaction():
            await erase_estimate(connection, item, redaction, counts)
    for mail in found.mails:
        async with connection.transaction():
            counts.mails += await erase_mail(connection, mail, [person.value.lower()])


async def _finish(connection: Connection, erasure: Erasure, counts: Counts, *, by: By) -> Erasure:
    total = asdict(counts)
    async with connection.transaction():
        await store.finish_erasure_any_account(connection, erasure.id, total, by.at)
        await audit.record(
            connection,
            erasure.organisation_id,
            "person.erased",
            by=by,
            subject_id=erasure.id,
            mode=erasure.mode,
            found_by=erasure.found_by,
            person_hash=erasure.person_hash.hex(),
            **total,
        )
    _log.info("person_erased", erasure_id=erasure.id, **total)
    return replace(erasure, finished_at=by.at, counts=total)


async def find_again_any_account(connection: Connection, erasures: Sequence[Erasure]) -> list[Search]:
    """The persons of these erasures whose data is there again.

    All stored addresses and names are hashed and compared.
    """
    values = await list_values_any_account(connection)
    requested = {(each.salt, each.person_hash, each.organisation_id, each.mode) for each in erasures}
    hashes = {(salt, person_hash) for salt, person_hash, _, _ in requested}
    found = list[Search]()
    with progress("Comparing addresses and names", len(values)) as advance:
        for found_by, value in values:
            person = Person(found_by, value)
            own = {(salt, person.hash(salt)) for salt, _ in hashes} & hashes
            found += [
                Search(person, organisation_id, mode)
                for salt, person_hash, organisation_id, mode in requested
                if (salt, person_hash) in own
            ]
            advance(1)
    return list(dict.fromkeys(found))


async def repeat_erasures(
    connection: Connection, searches: Sequence[Search], *, actor: Actor, clock: Clock
) -> tuple[list[Erasure], list[PersonInUse]]:
    """The erasures that were made, and why others could not be made yet."""
    made, refused = list[Erasure](), list[PersonInUse]()
    for search in searches:
        try:
            made.append(await erase_person(connection, search, actor=actor, clock=clock))
        except PersonInUse as error:
            refused.append(error)
    return made, refused
