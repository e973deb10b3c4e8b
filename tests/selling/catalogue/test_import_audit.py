"""Changes of the catalogue are in the audit log: one entry for each object that changed."""

import json
from typing import Any

from tests.selling.catalogue.test_import_catalogue import (
    BUNDLES,
    NOW,
    bundle_projects,
    defaults,
    import_basics,
    lots,
    run,
)
from tests.support.world import TESTER
from tonne.platform.db.database import Database
from tonne.platform.events.audit.record import BATCH
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.bundle_store import switch_bundle
from tonne.selling.catalogue.imports.plan import FileKind

RATE = "base,quote,rate,source,as_of\nEUR,USD,{rate},ECB,2026-11-14\n"


async def entries(db: Database) -> list[dict[str, Any]]:
    """All entries but those of the imports as a whole, by action."""
    async with db.connection() as connection:
        rows = await connection.fetch(
            "SELECT actor, organisation_id, mode, action, subject_id, before, after FROM audit_log "
            "WHERE action <> 'catalogue.imported' ORDER BY action, subject_id"
        )
    decoded = ({**row, "before": _decoded(row["before"]), "after": _decoded(row["after"])} for row in rows)
    return list(decoded)


def _decoded(text: str | None) -> Any:
    return None if text is None else json.loads(text)


async def new_entries(db: Database, texts: dict[FileKind, str]) -> list[tuple[str, Any, Any]]:
    """Action and values of the entries that an import adds."""
    before = {json.dumps(entry) for entry in await entries(db)}
    await run(db, texts)
    added = [entry for entry in await entries(db) if json.dumps(entry) not in before]
    assert all(entry["actor"] == str(TESTER) and entry["mode"] == "test" for entry in added)
    assert all(entry["organisation_id"] is None for entry in added), "they are the operator's"
    return [(entry["action"], entry["before"], entry["after"]) for entry in added]


async def test_security_7_a_changed_price_is_in_the_audit_log(db: Database) -> None:
    await import_basics(db)
    changed = BUNDLES.replace("12.65", "13.00").replace("Wind,,,6.90,true", "Wind power,,,6.90,false")
    assert sorted(await new_entries(db, {FileKind.BUNDLES: changed}), key=lambda entry: str(entry[1])) == [
        ("bundle.changed", {"name": "Wind", "enabled": True}, {"name": "Wind power", "enabled": False}),
        ("bundle.changed", {"unit_price": "12.65"}, {"unit_price": "13.00"}),
    ]


async def test_money_17_projects_rates_lots_and_defaults_are_in_the_audit_log(db: Database) -> None:
    await import_basics(db)
    assert [entry["action"] for entry in await entries(db)] == [*["bundle.created"] * 3, *["project.created"] * 2]
    assert await new_entries(db, {FileKind.EXCHANGE_RATES: RATE.format(rate="1.08")}) == [
        (
            "exchange_rate.created",
            None,
            {"base": "EUR", "quote": "USD", "rate": "1.08", "source": "ECB", "as_of": "2026-11-14T00:00:00Z"},
        )
    ]
    assert await new_entries(db, {FileKind.EXCHANGE_RATES: RATE.format(rate="1.09")}) == [
        ("exchange_rate.changed", {"rate": "1.08"}, {"rate": "1.09"})
    ]
    [(action, before, after)] = await new_entries(db, lots("A,1,10"))
    assert (action, before) == ("lot.created", None)
    assert after["serial"] == "A 1–10"
    [(action, before, after)] = await new_entries(db, defaults("forest,"))
    assert action == "catalogue.default_set"
    assert (before, after) == (
        {"bundle_selection": []},
        {"bundle_selection": [{"bundle": "forest", "percentage": None}]},
    )


async def test_the_projects_of_a_bundle_are_one_entry(db: Database) -> None:
    await import_basics(db)
    [(action, before, after)] = await new_entries(
        db, bundle_projects("forest,Our Registry,VCS1,1", "forest,Our Registry,VCS2,1")
    )
    assert action == "bundle.projects_changed"
    assert list(before.values()) == [None, None]
    assert sorted(value["position"] for value in after.values()) == [0, 1]
    [(_, before, after)] = await new_entries(db, bundle_projects("forest,Our Registry,VCS1,3"))
    assert sorted(map(str, before.values())) == ["{'weight': 1, 'position': 0}", "{'weight': 1, 'position': 1}"]
    assert sorted(map(str, after.values())) == ["None", "{'weight': 3, 'position': 0}"]


async def test_an_import_without_changes_leaves_no_entry(db: Database) -> None:
    await import_basics(db)
    async with db.connection() as connection:
        before = await connection.fetchval("SELECT count(*) FROM audit_log")
        await import_basics(db)
        assert await connection.fetchval("SELECT count(*) FROM audit_log") == before


async def test_the_import_itself_is_recorded_with_digests_and_counts(db: Database) -> None:
    await import_basics(db)
    async with db.connection() as connection:
        row = await connection.fetchrow(
            "SELECT subject_id, before, after, details FROM audit_log WHERE action = 'catalogue.imported'"
        )
    assert row is not None
    assert (row["subject_id"], json.loads(row["before"]), json.loads(row["after"])) == (
        "test",
        {"version": None},
        {"version": 1},
    )
    files = json.loads(row["details"])["files"]
    assert [(each["name"], each["new"], each["changed"]) for each in files] == [
        ("projects.csv", 2, 0),
        ("bundles.csv", 3, 0),
    ]
    assert all(len(each["sha256"]) == 64 for each in files)


async def test_a_large_import_writes_its_entries_in_batches(db: Database) -> None:
    await import_basics(db)
    count = BATCH + 1
    await run(db, lots(*(f"A,{number},{number}" for number in range(count))))
    async with db.connection() as connection:
        assert await connection.fetchval("SELECT count(*) FROM audit_log WHERE action = 'lot.created'") == count


async def test_security_7_switching_a_bundle_is_in_the_audit_log(db: Database) -> None:
    await import_basics(db)
    async with db.transaction() as tx:
        bundle_id = await tx.fetchval("SELECT id FROM bundles WHERE slug = 'forest'")
        for enabled in (False, False, True):
            await switch_bundle(tx, bundle_id, enabled=enabled, by=TESTER.at(NOW))
        rows = await tx.fetch(
            "SELECT action, mode, before, after FROM audit_log WHERE subject_id = $1 AND action <> 'bundle.created' "
            "ORDER BY action",
            bundle_id,
        )
    assert [tuple(row) for row in rows] == [
        ("bundle.disabled", Mode.TEST, '{"enabled": true}', '{"enabled": false}'),
        ("bundle.enabled", Mode.TEST, '{"enabled": false}', '{"enabled": true}'),
    ]
