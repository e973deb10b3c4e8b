"""The audit log of the operator, and that of an organisation."""

import csv
import io
from collections.abc import Callable
from datetime import timedelta

import pytest

from tests.support.api_client import ApiClient
from tests.support.clock import START
from tests.support.people import Person, add_user
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.platform.events.audit import record as audit
from tonne.platform.events.audit.store import SCANNED
from tonne.platform.values.context import Actor, ActorKind, Mode

ADA = Actor(ActorKind.CLI, "ada@host-1")
LOG = "/operator/live/audit"


async def record(
    services: Services,
    organisation_id: str | None,
    action: str,
    *,
    number: int = 0,
    mode: Mode | None = None,
    actor: Actor = ADA,
) -> None:
    async with services.database.transaction() as tx:
        await audit.record(
            tx,
            organisation_id,
            action,
            by=actor.at(START + timedelta(seconds=number)),
            subject_id=f"sub_{number}",
            mode=mode,
            before={"price": number},
            after={"price": "=1+1<b>"},
            note="changed by hand",
        )


def actions(page: str) -> list[str]:
    return [part.partition("<")[0] for part in page.split("<td><code>")[1:]]


async def test_the_operator_sees_the_entries_of_all(olga: Person, services: Services, world: World) -> None:
    ours, theirs = world.ours_test.scope.organisation_id, world.theirs_test.scope.organisation_id
    await record(services, ours, "thing.made", number=1, mode=Mode.LIVE)
    await record(services, theirs, "thing.changed", number=2)
    await record(services, None, "other.changed", number=3)
    await record(services, ours, "thing.tested", number=4, mode=Mode.TEST)
    page = (await olga.get(LOG)).text
    assert [each for each in actions(page) if "thing" in each or "other" in each] == [
        "other.changed",
        "thing.changed",
        "thing.made",
    ]
    for part in ("ada@host-1", "=1+1&lt;b&gt;", "changed by hand", f"/operator/live/customers/{theirs}"):
        assert part in page
    for query, expected in {
        "action=thing.": ["thing.changed", "thing.made"],
        f"organisation={ours}&action=thing": ["thing.made"],
        "subject=sub_3": ["other.changed"],
        "actor=ada@&action=thing.c": ["thing.changed"],
        "actor=nobody": [],
        "from=2026-11-01&to=2026-11-01&action=other": ["other.changed"],
        "to=2026-10-30&action=other": [],
    }.items():
        assert actions((await olga.get(f"{LOG}?{query}")).text) == expected, query
    answer = await olga.get(f"{LOG}?from=yesterday&to=2026-13-01")
    assert (answer.status_code, answer.text.count("Enter a day")) == (422, 2)


async def test_the_log_has_pages_and_an_export(olga: Person, services: Services) -> None:
    for number in range(60):
        await record(services, None, f"row.n{number}", number=number)
    first = (await olga.get(f"{LOG}?action=row.")).text
    assert (len(actions(first)), actions(first)[0]) == (50, "row.n59")
    older = first.partition('">Older<')[0].rpartition('"')[2].replace("&amp;", "&")
    assert actions((await olga.get(older)).text) == [f"row.n{number}" for number in range(9, -1, -1)]
    answer = await olga.get(f"{LOG}/export?action=row.")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert len(rows) == 60
    assert (rows[0]["action"], rows[0]["actor"], rows[0]["before"]) == ("row.n59", "ada@host-1", '{"price": 59}')


async def test_a_search_that_finds_little_goes_on_where_it_stopped(olga: Person, services: Services) -> None:
    await record(services, None, "rare.one")
    async with services.database.transaction() as tx:
        await tx.execute(
            "INSERT INTO audit_log (id, at, actor, action, subject_id, details) SELECT 'aud_' || number, "
            "'2026-11-01 12:00Z'::timestamptz + number * interval '1 ms', 'cli:ada', 'common.one', '', '{}' "
            "FROM generate_series(1, $1) AS number",
            SCANNED + 1,
        )
    page = (await olga.get(f"{LOG}?action=rare.&to=2026-11-01")).text
    assert actions(page) == []
    older = page.partition('">Search older entries')[0].rpartition('"')[2].replace("&amp;", "&")
    assert actions((await olga.get(older)).text) == ["rare.one"]
    assert "rare.one" in (await olga.get(f"{LOG}/export?action=rare.")).text


@pytest.fixture
async def ann(services: Services, world: World, person: Callable[[], Person]) -> Person:
    await add_user(services, "ann@ours.test", world.ours_test.scope.organisation_id)
    ann = person()
    await ann.sign_in("ann@ours.test")
    return ann


async def test_an_organisation_sees_its_own_entries_without_names_of_operators(
    ann: Person, olga: Person, services: Services, world: World, api: ApiClient
) -> None:
    ours, theirs = world.ours_test.scope.organisation_id, world.theirs_test.scope.organisation_id
    for number, (owner, mode) in enumerate(
        [(ours, Mode.LIVE), (ours, Mode.TEST), (ours, None), (theirs, None), (None, None)]
    ):
        await record(services, owner, f"seen.n{number}", number=number, mode=mode)
    await olga.submit(f"/operator/test/customers/{ours}/fee", fee="20")
    await ann.submit(f"/dashboard/live/{ours}/people", email="new@ours.test", role="finance")
    live, test = [(await ann.get(f"/dashboard/{mode}/{ours}/audit")).text for mode in ("live", "test")]
    assert [each for each in actions(live) if each.startswith("seen")] == ["seen.n2", "seen.n0"]
    assert [each for each in actions(test) if each.startswith("seen")] == ["seen.n1"]
    row = live.partition("organisation.fee_set")[2].partition("</tr>")[0]
    assert ("Operator" in row, "127.0.0.1" in row, "Olga" in live, "host-1" in live) == (True, False, False, False)
    row = live.partition("member.invited")[2].partition("</tr>")[0]
    assert ("Ann Lee" in row, "127.0.0.1" in row) == (True, True)
    found = (await ann.get(f"/dashboard/live/{ours}/audit?action=seen.&subject=sub_2")).text
    assert actions(found) == ["seen.n2"]
    text = (await ann.get(f"/dashboard/live/{ours}/audit/export")).text
    assert ("Olga" in text, "host-1" in text, "fee_set" in text) == (False, False, True)
    assert (await ann.get(f"/dashboard/live/{theirs}/audit/export")).status_code == 404
    api.key = world.ours_live.key
    entries = (await api.get("/v1/audit-log?limit=100")).json()["data"]
    types = {entry["action"]: entry["actor"] for entry in entries}
    assert types["organisation.fee_set"] == {"type": "operator", "id": None, "address": None}
    assert types["member.invited"]["type"] == "user"
