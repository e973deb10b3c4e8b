"""The key that seals signing secrets: checked at the start, changed while the service delivers, visible when lost."""

import asyncio
import base64
import subprocess
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tests.channels.webhooks.stage import Hook, Stage, verify
from tests.support.api_client import ApiClient
from tests.support.command import TONNE, output_of, refusal_of, tonne
from tests.support.processes import environment
from tests.support.receivers import Receiver
from tonne.apps.wiring.sealed import ALL_SEALED
from tonne.platform.db.database import Database
from tonne.platform.keys.check_secret_key import check_secret_key
from tonne.platform.keys.sealed import SealedSecrets
from tonne.platform.keys.secret_box import SecretBox, key_file
from tonne.platform.settings.secret_keys import key_id_of, parse_key
from tonne.platform.settings.settings import Settings, SettingsError

MALFORMED = "abc"
NEW, OTHER = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
NEW_ID, OTHER_ID = (key_id_of(parse_key(key)) for key in (NEW, OTHER))


async def _check(database: Database, settings: Settings, **changes: Any) -> SecretBox:
    async with database.connection() as connection:
        return await check_secret_key(connection, msgspec.structs.replace(settings, **changes), ALL_SEALED)


async def _refusal(database: Database, settings: Settings, **changes: Any) -> str:
    with pytest.raises(SettingsError) as refusal:
        await _check(database, settings, **changes)
    assert "\n" not in str(refusal.value)
    return str(refusal.value)


def _run(stage: Stage, *words: str, **settings: str) -> str:
    return output_of("secrets", *words, database_url=stage.services.database._url, **settings)


def _rotate_in_a_process(stage: Stage, keys: dict[str, str]) -> str:
    variables = environment({"database_url": stage.services.database._url, **keys})
    return subprocess.run(
        [TONNE, "secrets", "rotate"], env=variables, capture_output=True, text=True, check=True
    ).stdout


def _keys(stage: Stage) -> dict[str, str]:
    """The settings of a process during the change to the new key."""
    return {"secret_key": NEW, "secret_keys_old": stage.services.settings.secret_key}


async def test_operations_4_the_first_start_records_the_key_and_another_key_is_refused(
    db: Database, settings: Settings
) -> None:
    ours = (await _check(db, settings)).key_id
    assert (await _check(db, settings)).key_id == ours
    sentence = await _refusal(db, settings, secret_key=NEW)
    assert sentence.startswith(f"TONNE_SECRET_KEY ({NEW_ID}) is not the key of this database ({ours})")
    assert NEW not in sentence
    assert (await _check(db, settings)).key_id == ours, "the refused key has changed nothing"


async def test_operations_4_a_missing_key_is_not_replaced_once_the_database_has_one(
    db: Database, settings: Settings
) -> None:
    embedded = msgspec.structs.replace(settings, secret_key="", database_url="")
    ours = (await _check(db, embedded)).key_id
    assert key_file(embedded).exists(), "the first start with the embedded database creates it"
    assert (await _check(db, embedded)).key_id == ours
    key_file(embedded).unlink()
    sentence = await _refusal(db, embedded)
    assert ours in sentence
    assert "Restore the key from your backup" in sentence
    assert not key_file(embedded).exists()


async def test_operations_4_no_key_is_created_for_a_database_of_the_operator(db: Database, settings: Settings) -> None:
    sentence = await _refusal(db, settings, secret_key="", database_url=db._url)
    assert "TONNE_SECRET_KEY is not set" in sentence
    assert "openssl rand -base64 32" in sentence
    assert not key_file(settings).exists()


async def test_operations_4_no_key_is_created_beside_secrets_of_an_earlier_release(
    stage: Stage, settings: Settings
) -> None:
    """They were sealed before keys were recorded."""
    await stage.register("https://receiver.example/")
    database = stage.services.database
    assert "is missing" in await _refusal(database, settings, secret_key="", database_url="")
    assert not key_file(settings).exists()
    assert "opens none of its secrets" in await _refusal(database, settings, secret_key=NEW)
    await _check(database, settings)


async def test_security_13_a_new_key_is_accepted_beside_the_old_one_which_then_stays_necessary(
    db: Database, settings: Settings
) -> None:
    old = (await _check(db, settings)).key_id
    both = {"secret_key": NEW, "secret_keys_old": settings.secret_key}
    assert (await _check(db, settings, **both)).key_id == NEW_ID
    assert f"also needs the secret key {old}" in await _refusal(db, settings, secret_key=NEW)
    assert f"also needs the secret key {NEW_ID}" in await _refusal(db, settings)
    # Processes that start with the old key while others have the new one.
    assert (await _check(db, settings, secret_keys_old=NEW)).key_id == old


@pytest.mark.parametrize("command", ["serve", "api", "worker"])
async def test_operations_4_a_wrong_key_stops_every_process(db: Database, settings: Settings, command: str) -> None:
    await _check(db, settings)
    sentence = refusal_of(command, database_url=db._url, secret_key=NEW, data_dir=settings.data_dir)
    assert "is not the key of this database" in sentence
    assert "TONNE_SECRET_KEYS_OLD" in sentence


@pytest.mark.parametrize("words", [("migrate",), ("org", "list"), ("doctor",), ("secrets", "status")], ids=" ".join)
async def test_operations_15_a_malformed_key_stops_every_command(db: Database, words: tuple[str, ...]) -> None:
    sentence = refusal_of(*words, database_url=db._url, secret_key=MALFORMED)
    assert sentence.startswith("TONNE_SECRET_KEY must be 32 bytes in base64")


async def test_operations_4_a_delivery_that_cannot_be_signed_is_a_failed_attempt_with_a_back_off(
    stage: Stage, receiver: Receiver
) -> None:
    hook = await stage.register(receiver.url)
    ids = await stage.emit(stage.one, stage.two)
    async with stage.working(stage.change(secret_key=NEW)):

        async def failed_often() -> bool:
            return int((await stage.row(hook))["failures"]) >= 7

        await stage.until(failed_often)
    row = await stage.row(hook)
    assert row["lease_until"] is None, "the lease is released"
    assert row["failing_since"] is not None
    assert row["head_refusals"] == 0, "nothing was sent, so no event was refused"
    assert receiver.deliveries == []
    assert {attempt["error"] for attempt in await stage.attempts(hook)} == {"secret_unreadable"}
    # With the right key, everything arrives in order, and no account was parked.
    await stage.deliver()
    assert [event["event_id"] for event in receiver.events] == ids
    assert await stage.parked(hook) == []


async def test_security_13_a_test_event_that_cannot_be_signed_says_so(stage: Stage, api: ApiClient) -> None:
    hook = await stage.register("https://receiver.example/")
    await stage.fetch("UPDATE webhooks SET secret_box = '\\x00' WHERE id = $1", hook.id)
    answer = await api.post(f"/v1/webhooks/{hook.id}/test", {})
    assert answer.status_code == 200
    assert answer.json()["acknowledged"] is False
    assert answer.json()["error"] == "secret_unreadable"


async def test_security_13_rotation_reseals_everything_while_a_worker_delivers(
    stage: Stage, receiver: Receiver
) -> None:
    await _check(stage.services.database, stage.services.settings)
    hooks = [await stage.register(receiver.url) for _ in range(3)]
    box, keys = stage.services.box, _keys(stage)
    old_secret = box.seal("whsec_old", hooks[0].id)
    await stage.fetch(
        "UPDATE webhooks SET old_secret_box = $2, old_secret_until = now() + interval '1 hour', "
        "older_secret_box = $3, older_secret_until = now() + interval '1 hour' WHERE id = $1",
        hooks[0].id,
        old_secret,
        box.seal("whsec_older", hooks[0].id),
    )
    await stage.fetch(
        "UPDATE webhooks SET old_secret_box = $2, old_secret_until = now() - interval '1 hour' WHERE id = $1",
        hooks[1].id,
        box.seal("whsec_expired", hooks[1].id),
    )
    async with stage.working(stage.change(**keys)):
        ids = await stage.emit(stage.one, stage.two)
        rotation = asyncio.create_task(asyncio.to_thread(_rotate_in_a_process, stage, keys))
        while not rotation.done():
            ids += await stage.emit(stage.one)
            await stage.idle()
        assert (await rotation).splitlines() == [
            f"3 secret(s) encrypted again with key {NEW_ID}.",
            f"No value needs key {box.key_id} any more. You can remove it from TONNE_SECRET_KEYS_OLD.",
        ]
        ids += await stage.emit(stage.two)
        await stage.idle()
    assert await stage.fetch("SELECT FROM webhook_attempts WHERE NOT acknowledged") == []
    # From now on, the new key is enough.
    ids += await stage.emit(stage.one)
    await stage.deliver(stage.change(secret_key=NEW))
    for hook in hooks:
        signed = [each for each in receiver.deliveries if verify(each, hook.secret, stage.one.organisation_id)]
        assert [event for each in signed for event in each.event_ids] == ids
    for secret in ("whsec_old", "whsec_older"):
        assert any(verify(each, secret, stage.one.organisation_id) for each in receiver.deliveries[-3:]), secret
    assert (await stage.row(hooks[1]))["old_secret_box"] is None, "an expired secret is deleted"
    actions = await stage.fetch("SELECT subject_id, details FROM audit_log WHERE action = 'webhook.secret_resealed'")
    assert {row["subject_id"] for row in actions} == {hook.id for hook in hooks}
    assert all(NEW_ID in row["details"] for row in actions)
    await _check(stage.services.database, stage.change(secret_key=NEW))


async def test_security_13_rotation_is_idempotent_and_continues_after_an_interruption(
    stage: Stage, receiver: Receiver
) -> None:
    await _check(stage.services.database, stage.services.settings)
    hooks = [await stage.register(receiver.url) for _ in range(4)]
    done = hooks[2]
    new = SecretBox(parse_key(NEW))
    await stage.fetch("UPDATE webhooks SET secret_box = $2 WHERE id = $1", done.id, new.seal(done.secret, done.id))
    keys = _keys(stage)
    assert _run(stage, "rotate", **keys).startswith("3 secret(s)")
    boxes = [(await stage.row(hook))["secret_box"] for hook in hooks]
    assert [new.open(box, hook.id) for box, hook in zip(boxes, hooks, strict=True)] == [hook.secret for hook in hooks]
    assert _run(stage, "rotate", **keys) == f"0 secret(s) encrypted again with key {NEW_ID}."
    assert [(await stage.row(hook))["secret_box"] for hook in hooks] == boxes


async def _lose_key_of(stage: Stage, hook: Hook) -> None:
    """As if its secret had been sealed by a process whose key is gone."""
    lost = SecretBox(parse_key(OTHER)).seal(hook.secret, hook.id)
    await stage.fetch("UPDATE webhooks SET secret_box = $2 WHERE id = $1", hook.id, lost)


async def test_security_13_rotation_reports_values_that_cannot_be_opened_and_keeps_the_rest(
    stage: Stage, receiver: Receiver
) -> None:
    await _check(stage.services.database, stage.services.settings)
    lost, fine = [await stage.register(receiver.url) for _ in range(2)]
    await _lose_key_of(stage, lost)
    done = tonne("secrets", "rotate", database_url=stage.services.database._url, **_keys(stage))
    assert done.returncode == 1
    assert done.stdout.startswith("1 secret(s) encrypted again with key")
    assert lost.id in done.stderr
    assert fine.id not in done.stderr
    assert sealed_key(await stage.row(lost)) == OTHER_ID
    assert sealed_key(await stage.row(fine)) == NEW_ID


def sealed_key(row: Any) -> str:
    return bytes(row["secret_box"][4:12]).hex()


async def test_security_13_status_counts_the_values_of_each_key(stage: Stage, receiver: Receiver) -> None:
    settings = stage.services.settings
    ours = (await _check(stage.services.database, settings)).key_id
    hooks = [await stage.register(receiver.url) for _ in range(4)]
    await _lose_key_of(stage, hooks[0])
    await stage.fetch("UPDATE webhooks SET secret_box = '\\x00' WHERE id = $1", hooks[1].id)
    lines = [line.split("  ") for line in _run(stage, "status", **_keys(stage)).splitlines()]
    table = {tuple(cell.strip() for cell in line if cell.strip()) for line in lines[1:]}
    assert table == {(NEW_ID, "current", "0"), (ours, "old", "2"), (OTHER_ID, "no", "1"), ("(no key id)", "-", "1")}


async def test_security_13_every_sealed_column_is_counted(db: Database) -> None:
    """Otherwise a rotation would report a key as unneeded although values of that column need it."""
    async with db.connection() as connection:
        rows = await connection.fetch(
            "SELECT table_name, column_name FROM information_schema.columns "
            "WHERE table_schema = 'public' AND data_type = 'bytea' AND column_name LIKE '%\\_box'"
        )
    assert len(rows) >= 4
    assert [row for row in rows if not any(_covers(sealed, *row) for sealed in ALL_SEALED)] == []


def _covers(sealed: SealedSecrets, table: str, column: str) -> bool:
    return sealed.table == table and column in (sealed.column, *sealed.older)


async def test_security_13_the_doctor_reports_secrets_that_cannot_be_opened(stage: Stage, receiver: Receiver) -> None:
    url, key = stage.services.database._url, stage.services.settings.secret_key
    lost, fine = [await stage.register(receiver.url) for _ in range(2)]
    assert "All checks passed." in output_of("doctor", database_url=url, secret_key=key)
    await _lose_key_of(stage, lost)
    done = tonne("doctor", database_url=url, secret_key=key)
    assert done.returncode == 1
    assert "BROKEN  all secrets can be opened" in done.stdout
    assert f"- webhook {lost.id}: it is sealed with key {OTHER_ID}, which is not configured" in done.stdout
    assert fine.id not in done.stdout
    without = tonne("doctor", database_url=url, data_dir=stage.services.settings.data_dir)
    assert f"- webhook {fine.id}: no key is configured" in without.stdout
    assert not (Path(stage.services.settings.data_dir) / "secret.key").exists()


async def test_operations_4_after_the_loss_of_a_key_rotating_the_secret_is_enough(
    stage: Stage, receiver: Receiver
) -> None:
    settings = stage.services.settings
    ours = (await _check(stage.services.database, settings)).key_id
    hook = await stage.register(receiver.url)
    assert "tonne secrets reset" in await _refusal(stage.services.database, settings, secret_key=NEW)
    printed = _run(stage, "reset", "--yes", secret_key=NEW).splitlines()
    assert printed == [
        f"This database now uses key {NEW_ID}.",
        f"Given up: key {ours}.",
        "Rotate 1 secret(s), which cannot be opened:",
        f"- {hook.id}",
    ]
    await _check(stage.services.database, settings, secret_key=NEW)
    assert await stage.fetch("SELECT FROM audit_log WHERE action = 'organisation.secret_keys_given_up'")
    # As POST …/rotate-secret does, with the new key: the old value cannot be opened and is left out.
    await stage.fetch(
        "UPDATE webhooks SET old_secret_box = secret_box, old_secret_until = now() + interval '1 hour', "
        "secret_box = $2 WHERE id = $1",
        hook.id,
        SecretBox(parse_key(NEW)).seal("whsec_new", hook.id),
    )
    ids = await stage.emit()
    await stage.deliver(stage.change(secret_key=NEW))
    [delivery] = receiver.deliveries
    assert delivery.event_ids == ids
    assert verify(delivery, "whsec_new", stage.one.organisation_id)
