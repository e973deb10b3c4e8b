"""Offset links and redirect hosts from the command line."""

import json

from tests.channels.checkout.shopper import make_link
from tests.support.api_client import ApiClient
from tests.support.command import Operator, tonne
from tests.support.world import World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.signed_query import open_link_secrets
from tonne.channels.checkout.links.store import find_link_any_account
from tonne.platform.db.database import Database
from tonne.platform.values.context import utc_now

BASE = "https://offsets.example.com"


def id_of(address: str) -> str:
    return address.removeprefix(f"{BASE}/offset/")


async def test_a_link_is_created_shown_updated_and_disabled(operator: Operator, api: ApiClient, world: World) -> None:
    account_id, organisation_id = world.ours_test.scope.account_id, world.ours_test.scope.organisation_id
    wind, forest = list(world.bundles_test.values())[:2]
    operator.does("org", "allow-redirect", organisation_id, "shop.example.com")
    words = ("--account", account_id, "--title", "Offset your flight", "--message", "Thank you.", "--quantity", "1.5")
    more = ("--fixed", "--bundle", f"{wind}=60", "--bundle", f"{forest}=40", "--expires", "2099-12-31T00:00:00+01:00")
    target = ("--redirect-url", "https://shop.example.com/thanks", "--redirect-label", "Shop", "--max-value", "50")
    address = operator.does("link", "create", *words, *more, *target)
    link_id = id_of(address)
    assert address == f"{BASE}/offset/{link_id}"

    facts = operator.facts("link", "show", link_id)
    assert facts | {"created": ""} == {
        "id": link_id,
        "address": address,
        "state": "open",
        "title": "Offset your flight",
        "message": "Thank you.",
        "bundles": f"{wind}=60 {forest}=40",
        "quantity": "preset 1.5 t",
        "value": "at most 50.00 EUR",
        "amount": "fixed",
        "redirect URL": "https://shop.example.com/thanks",
        "redirect label": "Shop",
        "expires": "2099-12-30T23:00:00.000Z",
        "certificates for": "account",
        "language": "-",
        "created": "",
        "account": f"{account_id} (test)",
    }
    assert link_id in operator.does("link", "list", "--account", account_id)
    seen = (await api.get(f"/v1/offset-links/{link_id}")).json()
    assert (seen["preset_quantity"], seen["amount_editable"], seen["max_value"]) == ("1.5", False, "50.00")

    changed = ("--value", "20", "--free", "--message", "", "--language", "de")
    assert operator.does("link", "update", link_id, *changed) == address
    assert operator.facts("link", "show", link_id)["language"] == "de"
    facts = operator.facts("link", "show", link_id)
    assert (facts["quantity"], facts["value"]) == ("-", "preset 20.00 EUR, at most 50.00 EUR")
    assert (facts["amount"], facts["message"], facts["title"]) == ("free", "-", "Offset your flight")
    cleared = (
        "--bundle",
        "",
        "--redirect-url",
        "",
        "--expires",
        "",
        "--max-value",
        "",
        "--title",
        "Anew",
        "--language",
        "",
    )
    operator.does("link", "update", link_id, *cleared)
    facts = operator.facts("link", "show", link_id)
    assert (facts["bundles"], facts["redirect URL"], facts["expires"]) == (
        "the account's default bundles",
        "-",
        "never",
    )
    assert (facts["value"], facts["title"], facts["redirect label"]) == ("preset 20.00 EUR", "Anew", "Shop")
    assert facts["language"] == "-"

    assert operator.does("link", "disable", link_id) == f"{link_id} is disabled."
    assert operator.facts("link", "show", link_id)["state"] == "disabled"
    assert "disabled" in operator.does("link", "list", "--account", account_id)
    assert operator.does("link", "enable", link_id) == address
    assert operator.facts("link", "show", link_id) == facts


def test_a_link_with_a_forbidden_host_can_be_disabled(operator: Operator, world: World) -> None:
    account_id, organisation_id = world.ours_test.scope.account_id, world.ours_test.scope.organisation_id
    operator.does("org", "allow-redirect", organisation_id, "localhost")
    words = ("--account", account_id, "--title", "Local", "--redirect-url", "http://localhost:3000/done")
    link_id = id_of(operator.does("link", "create", *words))
    operator.does("org", "forbid-redirect", organisation_id, "localhost")
    operator.does("link", "disable", link_id)
    assert "localhost is not on" in operator.is_refused("link", "create", *words)


def test_all_errors_are_reported_at_once_on_one_line(operator: Operator, world: World) -> None:
    account = ("--account", world.ours_test.scope.account_id)
    refusal = operator.is_refused(
        "link", "create", *account, "--title", "x", "--min-value", "2", "--max-value", "1.999"
    )
    assert "max_value must be from 0.01" in refusal
    refusal = operator.is_refused("link", "create", *account, "--title", " ", "--quantity", "1e3", "--expires", "later")
    assert [word in refusal for word in ("title", "preset_quantity", "expires_at")] == [True] * 3
    refusal = operator.is_refused("link", "create", *account, "--title", "x", "--fixed", "--min-quantity", "0")
    assert "min_quantity must be" in refusal
    assert "cannot edit must be preset" in refusal
    assert "The bundle does not exist" in operator.is_refused(
        "link", "create", *account, "--title", "x", "--bundle", "bun_gone"
    )
    both = ("--quantity", "1", "--value", "1")
    assert "not both" in operator.is_refused("link", "create", *account, "--title", "x", *both)
    assert operator.does("link", "list", *account) == "No links. Create one with `tonne link create`."


def test_unknown_ids_say_where_to_look(operator: Operator, world: World) -> None:
    for words in (("show",), ("update",), ("disable",), ("enable",)):
        assert "tonne link list" in operator.is_refused("link", *words, "lnk_gone")
    assert "tonne account list" in operator.is_refused("link", "create", "--account", "acc_gone", "--title", "x")
    assert "tonne account list" in operator.is_refused("link", "list", "--account", "acc_gone")
    assert "tonne org list" in operator.is_refused("org", "allow-redirect", "org_gone", "example.com")
    assert "tonne org list" in operator.is_refused("org", "show", "org_gone")
    organisation_id = world.ours_test.scope.organisation_id
    assert "not a redirect host" in operator.is_refused("org", "forbid-redirect", organisation_id, "example.com")
    assert "without https://" in operator.is_refused("org", "allow-redirect", organisation_id, "https://example.com")
    assert "without https://" in operator.is_refused("org", "forbid-redirect", organisation_id, "*.example.com")


async def test_redirect_hosts_have_one_spelling_and_are_audited(
    operator: Operator, world: World, populated_db: Database
) -> None:
    organisation_id = world.ours_test.scope.organisation_id
    assert "redirects to  -" in operator.does("org", "show", organisation_id)
    for host in ("Shop.Example.com:443", "shop.example.com", "bücher.example", "pay.example.com:8443"):
        operator.does("org", "allow-redirect", organisation_id, host)
    shown = operator.does("org", "show", organisation_id)
    assert "redirects to  pay.example.com:8443, shop.example.com, xn--bcher-kva.example" in shown
    assert "Ours" in shown
    said = operator.does("org", "forbid-redirect", organisation_id, "BÜCHER.example")
    assert said == "Checkouts no longer redirect to xn--bcher-kva.example."
    assert "redirects to  pay.example.com:8443, shop.example.com" in operator.does("org", "show", organisation_id)
    assert "redirects to  -" in operator.does("org", "show", world.theirs_test.scope.organisation_id)
    async with populated_db.connection() as connection:
        rows = await connection.fetch(
            "SELECT action, subject_id, details FROM audit_log WHERE action LIKE 'organisation.redirect%' ORDER BY id"
        )
    assert {row["subject_id"] for row in rows} == {organisation_id}
    assert [(row["action"].rpartition("_")[2], json.loads(row["details"])["host"]) for row in rows] == [
        ("allowed", "shop.example.com"),
        ("allowed", "xn--bcher-kva.example"),
        ("allowed", "pay.example.com:8443"),
        ("forbidden", "xn--bcher-kva.example"),
    ]


async def test_hostile_text_does_not_reach_the_terminal(operator: Operator, api: ApiClient, world: World) -> None:
    hostile = "\x1b[31mred\x07\n\u202egnp.exe"
    settings = {"title": hostile, "message": hostile, "redirect_label": hostile}
    link_id = (await api.post("/v1/offset-links", settings)).json()["id"]
    operator.does("link", "disable", link_id)
    for words in (("show", link_id), ("list", "--account", world.ours_test.scope.account_id)):
        printed = operator.does("link", *words)
        assert r"\x1b[31mred\x07\n\u202egnp.exe" in printed
        assert printed.replace("\n", "").isprintable()
    assert (await api.get(f"/v1/offset-links/{link_id}")).json()["title"] == hostile, "and is stored unchanged"


def test_invalid_unicode_from_the_shell_is_rejected(operator: Operator, world: World) -> None:
    done = tonne(
        "link", "create", "--account", world.ours_test.scope.account_id, "--title", "\udcff", database_url=operator.url
    )
    assert (done.returncode, done.stdout) == (1, "")
    assert "surrogate" in done.stderr


async def test_people_a7_the_doctor_names_links_that_nobody_can_pay(
    operator: Operator, services: Services, world: World
) -> None:
    link = await make_link(services, world.ours_live.scope)
    await make_link(services, world.ours_live.scope, enabled=False)
    await make_link(services, world.ours_test.scope)
    report = operator.runs("doctor").stdout
    assert f"- link {link.id} of account {world.ours_live.scope.account_id}" in report
    assert report.count("- link") == 1
    assert "TONNE_STRIPE_SECRET_KEY" in report
    assert "no card gateway" in operator.does("link", "show", link.id)
    operator.does("link", "disable", link.id)
    assert "no card gateway" in operator.is_refused("link", "enable", link.id)
    assert "no card gateway" in operator.is_refused(
        "link", "create", "--account", world.ours_live.scope.account_id, "--title", "x"
    )
    assert "All checks passed." in operator.does("doctor")


async def test_the_secret_of_a_link_is_shown_once_and_rotated(
    operator: Operator, services: Services, world: World
) -> None:
    words = ("link", "create", "--account", world.ours_test.scope.account_id, "--title", "Signed")
    address, secret = operator.does(*words, "--show-secret").splitlines()
    assert secret.startswith("lsec_")
    assert secret not in operator.does("link", "show", id_of(address))
    [rotated] = operator.does("link", "rotate-secret", id_of(address)).splitlines()
    assert rotated.startswith("lsec_")
    async with services.database.connection() as connection:
        link = await find_link_any_account(connection, id_of(address))
        assert link is not None
        assert await open_link_secrets(connection, link, services.box, utc_now()) == [rotated, secret]
    operator.does("link", "rotate-secret", link.id, "--overlap-s", "0")
    async with services.database.connection() as connection:
        assert len(await open_link_secrets(connection, link, services.box, utc_now())) == 1
    assert "tonne link list" in operator.is_refused("link", "rotate-secret", "lnk_gone")
