"""tonne check"""

import os
import sys

import click
import msgspec

from tonne.apps.cli.check.check_connections import check_connections
from tonne.apps.cli.check.check_machine import check_machine
from tonne.apps.cli.check.check_result import CheckResult, CheckStatus
from tonne.apps.cli.operations.doctor import WARNINGS_CODE
from tonne.apps.cli.table import printable
from tonne.platform.settings.load_settings import load_settings
from tonne.platform.settings.settings import SettingsError


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object with all checks.")
def check(as_json: bool) -> None:
    """Check the settings and what the service needs, before it starts.

    Reads the settings, connects to the database, the mail server, the card gateway, the egress proxy and the witnesses
    of the log, and looks at the data folder, the disk and the limits of this process. Run it as the user and with the
    environment of the service. It changes nothing.

    The exit code is 0 if all is well, 1 if there is an error: the service would not start, or not work; and 3 if there
    are only warnings.
    """
    results = _check_all()
    statuses = {each.status for each in results}
    worst = next((each for each in (CheckStatus.ERROR, CheckStatus.WARNING) if each in statuses), CheckStatus.OK)
    if as_json:
        click.echo(msgspec.json.encode({"status": worst, "checks": results}))
    else:
        for each in results:
            _print(each)
        errors = sum(each.status is CheckStatus.ERROR for each in results)
        warnings = sum(each.status is CheckStatus.WARNING for each in results)
        click.echo(f"{_count(errors, 'error')}, {_count(warnings, 'warning')}.")
    sys.exit({CheckStatus.OK: 0, CheckStatus.WARNING: WARNINGS_CODE, CheckStatus.ERROR: 1}[worst])


def _check_all() -> list[CheckResult]:
    try:
        settings = load_settings(os.environ)
    except SettingsError as error:
        # Nothing else can be checked without them.
        return [CheckResult.error("settings", "The settings are not valid.", str(error))]
    return [*check_machine(settings, os.environ), *check_connections(settings)]


def _print(result: CheckResult) -> None:
    mark = {CheckStatus.OK: "ok     ", CheckStatus.WARNING: "WARNING", CheckStatus.ERROR: "ERROR  "}[result.status]
    click.echo(f"{mark}  {result.name}: {printable(result.found)}")
    if result.remedy:
        click.echo(f"         {printable(result.remedy)}")


def _count(number: int, what: str) -> str:
    return f"{number or 'no'} {what}{'' if number == 1 else 's'}"
