"""tonne listen: secrets from the environment."""

import pytest
from click.testing import CliRunner

from tonne.apps.cli.channels import listen as module
from tonne.apps.cli.main import main
from tonne.platform.settings.load_settings import load_settings


def test_security_22_the_secret_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str]] = []

    async def run(forwarder: module._Forwarder) -> None:
        seen.append((forwarder._secret, forwarder._authorization["Authorization"]))

    monkeypatch.setattr(module._Forwarder, "run", run)
    variables = {"TONNE_API_KEY": "tonne_test_key", "TONNE_LISTEN_SECRET": "whsec_mine"}
    done = CliRunner().invoke(main, ["listen", "--forward-to", "http://127.0.0.1:9000/"], env=variables)
    assert (done.exit_code, done.output) == (0, "")
    assert seen == [("whsec_mine", "Bearer tonne_test_key")]


@pytest.mark.parametrize(
    ("variables", "words", "expected"),
    [
        ({}, (), ("http://localhost:8080/v1", "Service-HMAC")),
        ({"TONNE_PORT": "9999"}, (), ("http://localhost:9999/v1", "Service-HMAC")),
        (
            {"TONNE_PORT": "9999", "TONNE_PUBLIC_URL": "https://offsets.example.com/", "TONNE_BRAND": "Acme"},
            (),
            ("https://offsets.example.com/v1", "Acme-HMAC"),
        ),
        (
            {"TONNE_PORT": "9999", "TONNE_API_URL": "http://127.0.0.1:7777/v1/"},
            ("--brand", "Mine"),
            ("http://127.0.0.1:7777/v1", "Mine-HMAC"),
        ),
    ],
)
def test_people_c_the_address_comes_from_the_settings(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], words: tuple[str, ...], expected: tuple[str, str]
) -> None:
    seen: list[tuple[str, str]] = []

    async def run(forwarder: module._Forwarder) -> None:
        seen.append((forwarder._api_url, f"{forwarder._brand}-HMAC"))

    monkeypatch.setattr(module._Forwarder, "run", run)
    call = ["listen", "--forward-to", "http://127.0.0.1:9000/", *words]
    done = CliRunner().invoke(main, call, env={"TONNE_API_KEY": "tonne_test_key", **variables})
    assert (done.exit_code, done.output) == (0, "")
    assert seen == [expected]


def test_the_variables_of_listen_are_not_settings_of_the_service() -> None:
    load_settings({"TONNE_LISTEN_SECRET": "whsec_mine", "TONNE_API_KEY": "k", "TONNE_API_URL": "u"})
