"""Checks of what publishing the transparency log needs: the folder of the head files, and the witnesses."""

import os

from tonne.apps.cli.check.check_result import CheckResult
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now
from tonne.supply.transparency.witnesses import WitnessClient


async def check_log(settings: Settings) -> list[CheckResult]:
    return [_head_folder(settings), *await _witnesses(settings)]


def _head_folder(settings: Settings) -> CheckResult:
    name, folder = "log heads", settings.log_head_path
    if not settings.log_head_folder:
        return CheckResult.ok(name, f"in the data folder, at {folder}")
    if folder.is_dir() and os.access(folder, os.R_OK | os.W_OK | os.X_OK):
        return CheckResult.ok(name, str(folder))
    return CheckResult.error(
        name,
        f"{folder} is not a folder that this user may read and write.",
        "Create it for the user of Tonne with mode 700, or set TONNE_LOG_HEAD_FOLDER. Until then no checkpoint of the "
        "log is published, and certificates have no proof.",
    )


async def _witnesses(settings: Settings) -> list[CheckResult]:
    results = []
    client = WitnessClient(settings, utc_now)
    try:
        for witness in settings.witnesses:
            name = f"witness {witness.key.name}"
            reason = await client.find_obstacle(witness)
            if reason is None:
                results.append(CheckResult.ok(name, f"{witness.url} responds"))
            else:
                remedy = "Check TONNE_LOG_WITNESSES and the firewall. Meanwhile checkpoints lack its cosignature."
                results.append(CheckResult.warning(name, f"{witness.url} cannot be reached: {reason}.", remedy))
    finally:
        await client.close()
    return results
