"""A demo that other machines can reach."""

import pytest

from tonne.apps.cli.demo.demo import warn_if_reachable
from tonne.platform.settings.settings import Settings


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "demo.example.com"])  # noqa: S104 - not bound
def test_security_22_a_demo_that_others_can_reach_warns(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    warn_if_reachable(Settings(host=host))
    assert f"Warning: other machines can reach the demo, because TONNE_HOST is {host}." in capsys.readouterr().err


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_a_demo_for_this_machine_does_not(host: str, capsys: pytest.CaptureFixture[str]) -> None:
    warn_if_reachable(Settings(host=host))
    assert capsys.readouterr().err == ""
