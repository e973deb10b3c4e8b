"""How backups, tests of a restore and the doctor ended, what the disk has left, and when certificates expire."""

from pathlib import Path

import msgspec
import pytest

from tests.support.clock import ManualClock
from tests.support.command import Operator
from tests.support.samples import Samples, parse_samples, total
from tests.support.tls import Authority
from tonne.apps.wiring.app import Services
from tonne.platform.db.operation_runs import record_run
from tonne.platform.process.telemetry.machine_metrics import MachineMetrics
from tonne.platform.process.telemetry.metrics_text import render
from tonne.platform.settings.settings import Settings

BACKUP, DOCTOR = "tonne_backup_last_success_timestamp_seconds", "tonne_doctor_last_run_timestamp_seconds"


async def _read(services: Services) -> Samples:
    services.queues._kept = None
    return parse_samples(render(await services.queues.read()).decode())


async def test_operations_7_the_metrics_tell_when_each_operation_last_ended(services: Services) -> None:
    never = await _read(services)
    # From the day of the installation: an operation that nobody has scheduled does not stay unnoticed.
    assert total(never, BACKUP) == total(never, DOCTOR) > 0
    clock = ManualClock()
    await services.database.run(record_run, "backup", 0, clock())
    clock.advance(hours=1)
    await services.database.run(record_run, "backup", 1, clock())
    await services.database.run(record_run, "doctor", 4, clock())
    found = await _read(services)
    assert total(found, BACKUP) == clock().timestamp() - 3600
    assert (total(found, DOCTOR), total(found, "tonne_doctor_status")) == (clock().timestamp(), 4)


async def test_operations_7_commands_record_how_they_ended(operator: Operator, services: Services) -> None:
    before = await _read(services)
    operator.does("record-run", "backup")
    operator.does("record-run", "doctor", "1")
    operator.does("record-run", "restore_test", "1")
    failed = await _read(services)
    assert total(failed, BACKUP) > total(before, BACKUP)
    assert total(failed, "tonne_doctor_status") == total(failed, "tonne_restore_test_status") == 1
    assert total(before, "tonne_restore_test_status") == 0
    code = operator.runs("doctor").returncode
    assert total(await _read(services), "tonne_doctor_status") == code != 1


def test_operations_7_space_and_certificates_of_the_machine(settings: Settings, tmp_path: Path) -> None:
    certificate = Authority(tmp_path).ca_file
    named = msgspec.structs.replace(
        settings,
        data_dir=str(tmp_path),
        document_certificate_file=str(certificate),
        webhook_client_certificate_file=str(tmp_path / "missing"),
    )
    samples = parse_samples(
        render([metric.snapshot() for metric in MachineMetrics(named, lambda: None).metrics]).decode()
    )
    assert 0 < total(samples, "tonne_disk_free_ratio") < 1
    assert total(samples, "tonne_certificate_expiry_timestamp_seconds", use="document") > 1e9
    assert total(samples, "tonne_certificate_expiry_timestamp_seconds", use="client") == pytest.approx(0)


async def test_the_certificate_that_signs_pdfs_is_watched_wherever_it_is_kept(services: Services) -> None:
    """In a PKCS#12 file, a module or the database there is no file in PEM to look at."""
    settings = msgspec.structs.replace(services.settings, document_certificate_file="")
    expiry = MachineMetrics(settings, services.signing_keys.document_expiry).metrics[1]
    assert expiry.snapshot().series == []
    key = await services.signing_keys.document()
    assert expiry.snapshot().series == [(("document",), [key.certificate.own.not_valid_after_utc.timestamp()])]
