"""tonne login: commands of a known person. Approvals on the command line, and what the environment cannot do."""

import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import asyncpg
import msgspec
import pytest
from click.testing import CliRunner, Result

from tests.apps.cli.story import TAXED_SELLER, Story
from tests.support.api_client import ApiClient
from tests.support.command import Operator
from tests.support.people import approver
from tests.support.processes import environment
from tests.support.world import World
from tonne.apps.cli import operator as cli_operator
from tonne.apps.cli.main import main
from tonne.apps.cli.operator import Login, write_login
from tonne.apps.wiring.app import Services
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now
from tonne.selling.users.approvals import Approver
from tonne.selling.users.personal_tokens import make_token
from tonne.selling.users.store import find_user_by_id

ROOT = Path(__file__).parents[3]
WAITS = "state = 'approval', next_attempt_at = NULL, requested_by = "


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "tonne" / "login"


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return msgspec.structs.replace(settings, **TAXED_SELLER)


def mode_of(file: Path) -> int | None:
    return stat.S_IMODE(file.stat().st_mode) if file.exists() else None


def spoil(file: Path, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    uid = os.geteuid() + 1
    if fault == "readable":
        file.chmod(0o640)
    elif fault == "owner":
        monkeypatch.setattr(os, "geteuid", lambda: uid)
    elif fault == "link":
        file.rename(file.with_name("elsewhere"))
        file.symlink_to(file.with_name("elsewhere"))
    elif fault == "text":
        file.write_text("something else", encoding="utf-8")


async def token_of(database: Database, person: Approver, age_days: int = 0) -> str:
    async with database.transaction() as tx:
        user = await find_user_by_id(tx, person.actor.name)
        assert user is not None
        return await make_token(tx, user, "Test", 30, by=person.actor.at(utc_now() - timedelta(days=age_days)))


def log_in(operator: Operator, typed: str) -> Result:
    variables = environment({"database_url": operator.url, "secret_key": operator.secret_key})
    run: Callable[[], Result] = lambda: CliRunner().invoke(main, ["login"], input=f"{typed}\n", env=variables)  # noqa: E731
    with ThreadPoolExecutor(1) as thread:
        return thread.submit(run).result()


async def test_a_login_makes_the_user_the_actor(operator: Operator, populated_db: Database, file: Path) -> None:
    ann = await approver(populated_db, "ann")
    refused = log_in(operator, "tonne_pat_guessed")
    assert (refused.exit_code, "not valid" in refused.output) == (1, True)
    assert mode_of(file) is None
    token = await token_of(populated_db, ann)
    done = log_in(operator, token)
    assert (done.exit_code, token in done.output) == (0, False), done.output
    assert mode_of(file) == 0o600
    operator.does("org", "create", "Ours anew")
    async with populated_db.connection() as connection:
        [row] = await connection.fetch("SELECT actor, address FROM audit_log ORDER BY id DESC LIMIT 1")
        assert row["actor"] == str(ann.actor)
        assert row["address"].startswith(f"{cli_operator.operator({}).name}")
        await connection.execute("UPDATE personal_tokens SET revoked_at = now()")
    assert "expired or was revoked" in operator.is_refused("org", "create", "Never")
    operator.does("logout")
    assert mode_of(file) is None
    operator.does("org", "create", "Again")


@pytest.mark.parametrize("fault", ["readable", "owner", "link", "expired", "of another user", "no operator", "text"])
async def test_a_login_that_proves_nothing_is_refused(
    operator: Operator, populated_db: Database, file: Path, fault: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ann, bob = await approver(populated_db, "ann"), await approver(populated_db, "bob")
    token = await token_of(populated_db, ann, age_days=31 if fault == "expired" else 0)
    write_login(Login((bob if fault == "of another user" else ann).actor.name, token))
    spoil(file, fault, monkeypatch)
    if fault == "no operator":
        async with populated_db.transaction() as tx:
            await tx.execute("UPDATE users SET is_operator = false, may_approve = false")
    before = await count(populated_db)
    said = operator.is_refused("org", "create", "Never")
    expected = {"readable": "nobody else may read it", "owner": "must belong to you", "link": "cannot be read"}
    assert expected.get(fault, "expired or was revoked") in said
    assert await count(populated_db) == before


async def count(database: Database) -> int:
    async with database.connection() as connection:
        entries: int = await connection.fetchval("SELECT count(*) FROM audit_log")
        return entries


async def test_the_environment_is_recorded_and_decides_nothing(
    operator: Operator, populated_db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SUDO_USER", "mallory")
    operator.does("org", "create", "Ours anew")
    async with populated_db.connection() as connection:
        [row] = await connection.fetch("SELECT actor, address FROM audit_log ORDER BY id DESC LIMIT 1")
    assert row["actor"] == str(cli_operator.operator({}))
    assert "SUDO_USER=mallory" in row["address"]


async def test_the_command_prints_the_link_or_approves_with_a_token(
    api: ApiClient, services: Services, world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = Story(api, services, world, tmp_path, {"secret_key": services.settings.secret_key, **TAXED_SELLER})
    ann, bob = await approver(services.database, "ann"), await approver(services.database, "bob")
    tokens = {each: await token_of(services.database, each) for each in (ann, bob)}

    def approve(person: Approver | None, *words: str, approvals_by: str = "token") -> str:
        monkeypatch.setitem(story.settings, "approvals_by", approvals_by)
        if person is None:
            cli_operator.login_file().unlink(missing_ok=True)
        else:
            write_login(Login(person.actor.name, tokens[person]))
        return story.run(*words)

    words = await story.refund(f"{WAITS}'{ann.actor}'")
    monkeypatch.setenv("SUDO_USER", "mallory")
    link = f"/operator/test/money/refunds/{words[0]}"
    assert approve(None, "refund", "approve", *words).endswith(link)
    assert approve(bob, "refund", "approve", *words, approvals_by="browser").endswith(link)
    assert await count_approvals(services) == 0
    with pytest.raises(AssertionError, match="You requested this"):
        approve(ann, "refund", "approve", *words)
    assert "is approved" in approve(bob, "refund", "approve", *words)
    # Of a command line without a login, two users have to.
    words = await story.refund(f"{WAITS}'cli:ann@ops-1'")
    assert "waits for another person" in approve(ann, "refund", "approve", *words)
    assert "is approved" in approve(bob, "refund", "approve", *words)
    for command, words in (
        (("transfer", "approve"), await story.bank_return("planned")),
        (("invoice", "approve-write-off"), await story.written_off("approval")),
    ):
        assert "/operator/live/money/" in approve(None, *command, *words)
        assert "another person" in approve(ann, *command, *words)
        done = approve(bob, *command, *words)
        assert "is approved" in done or "are written off" in done


async def count_approvals(services: Services) -> int:
    async with services.database.connection() as connection:
        found: int = await connection.fetchval("SELECT count(*) FROM approvals")
        return found


async def test_the_documented_role_of_the_command_line_cannot_write_approvals(
    operator: Operator, populated_db: Database
) -> None:
    page = (ROOT / "docs" / "operations-reference.md").read_text(encoding="utf-8")
    role = f"tonne_cli_{os.getpid()}"
    create = page.partition("```sql\nCREATE ROLE")[2].partition("```")[0].replace("tonne_cli", role)
    async with populated_db.connection() as connection:
        await connection.execute(f"CREATE ROLE{create}")
        try:
            as_role = replace(operator, url=f"{operator.url}{'&' if '?' in operator.url else '?'}role={role}")
            as_role.does("org", "create", "Ours anew")
            assert "permission denied for table users" in as_role.is_refused(
                "user", "create", "x@x.test", "X", "--operator"
            )
            async with connection.transaction():
                await connection.execute(f"SET LOCAL ROLE {role}")
                for table in ("approvals", "users", "user_sessions", "personal_tokens"):
                    with pytest.raises(asyncpg.InsufficientPrivilegeError):
                        async with connection.transaction():
                            await connection.execute(f"INSERT INTO {table} DEFAULT VALUES")
        finally:
            await connection.execute(f"DROP OWNED BY {role}; DROP ROLE {role}")
