"""Our own service keeps every sentence of its interface."""

import dataclasses
from pathlib import Path

import httpx

from tests.conformance.own_installation import OwnInstallation
from tests.support.rounds import ROUNDS
from tonne_conformance.run import ALL_CHECKS, Verdict, run
from tonne_conformance.text_report import text_report

# They need 15 minutes, or are slow: see `make conformance`.
NEED_PATIENCE = {
    "payments.a_temporary_id_is_valid_before_15_minutes",
    "payments.a_temporary_id_is_not_valid_after_15_minutes.endpoint",
    "payments.the_look_up_after_15_minutes_is_an_error.condition",
}


def test_every_check_passes(own: OwnInstallation, tmp_path: Path) -> None:
    """Real waits above five seconds are left out here; `make conformance` and `make test-random` include them."""
    is_fast = ROUNDS == 1
    options = dataclasses.replace(own.options, fast=is_fast, report_dir=tmp_path)
    result = run(options, own.certificate)
    assert result.exit_code == 0, text_report(result)
    skipped = {outcome.check.id for outcome in result.with_verdict(Verdict.SKIPPED)}
    assert skipped == ({check.id for check in ALL_CHECKS if check.slow} if is_fast else NEED_PATIENCE)
    headers = {"Authorization": f"Bearer {own.options.key}"}
    assert httpx.get(f"{own.options.url}/webhooks", headers=headers).json() == [], "the suite deletes what it made"


def test_there_are_at_least_250_checks_and_every_module_has_some() -> None:
    assert len(ALL_CHECKS) >= 250
    assert len({check.id for check in ALL_CHECKS}) == len(ALL_CHECKS)
    assert all(check.sentence.strip() for check in ALL_CHECKS)
