"""What `tonne check` says about the key that signs PDFs."""

from datetime import timedelta
from pathlib import Path

import msgspec

from tests.platform.keys.signing.test_keys import keys_of
from tests.support.document_key import write_document_key
from tonne.apps.cli.check.check_connections import check_document_key
from tonne.apps.cli.check.check_result import CheckResult, CheckStatus
from tonne.platform.db.database import Database
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now


async def test_it_warns_of_the_end_of_the_certificate_and_names_unusable_keys(
    db: Database, settings: Settings, tmp_path: Path
) -> None:
    async def check(**changes: str) -> CheckResult:
        async with db.connection() as connection:
            return await check_document_key(connection, msgspec.structs.replace(settings, **changes))

    none = {"document_key_file": "", "document_certificate_file": ""}
    assert "self-signed" in (await check(**none)).found
    assert await check() == CheckResult.ok("document key", "your own, CN=Signer of tests")
    await keys_of(db, settings).document()
    unnamed = await check(**none)
    assert unnamed.status is CheckStatus.ERROR
    assert "tonne signing-keys rotate document" in unnamed.remedy
    for days, status in ((29, CheckStatus.WARNING), (32, CheckStatus.OK), (-1, CheckStatus.ERROR)):
        files = write_document_key(tmp_path, until=utc_now().replace(microsecond=0) + timedelta(days=days))
        assert (await check(**files)).status is status
    assert (await check(document_key_password="wrong")).status is CheckStatus.ERROR  # noqa: S106 - not a secret
