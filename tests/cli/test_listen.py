"""tonne listen: secrets from the environment."""

import pytest
from click.testing import CliRunner

from tonne.base.settings import load_settings
from tonne.cli import listen as module
from tonne.cli.main import main


def test_security_22_the_secret_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[str, str]] = []

    async def run(forwarder: module._Forwarder) -> None:
        seen.append((forwarder._secret, forwarder._authorization["Authorization"]))

    monkeypatch.setattr(module._Forwarder, "run", run)
    variables = {"TONNE_API_KEY": "tonne_test_key", "TONNE_LISTEN_SECRET": "whsec_mine"}
    done = CliRunner().invoke(main, ["listen", "--forward-to", "http://127.0.0.1:9000/"], env=variables)
    assert (done.exit_code, done.output) == (0, "")
    assert seen == [("whsec_mine", "Bearer tonne_test_key")]


def test_the_variables_of_listen_are_not_settings_of_the_service() -> None:
    load_settings({"TONNE_LISTEN_SECRET": "whsec_mine", "TONNE_API_KEY": "k", "TONNE_API_URL": "u"})
