"""The secrets of offset links survive a change of the key that seals them, and are reported when it is lost."""

import base64

from tests.channels.checkout.shopper import LINK_SECRET, make_link
from tests.support.command import output_of, tonne
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.apps.wiring.sealed import ALL_SEALED
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.links.signed_query import open_link_secrets, rotate_link_secret
from tonne.platform.keys.check_secret_key import check_secret_key
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.secret_keys import key_id_of, parse_key
from tonne.platform.values.context import utc_now

NEW, OTHER = (base64.b64encode(bytes([number]) * 32).decode() for number in (1, 2))
NEW_ID, OTHER_ID = (key_id_of(parse_key(key)) for key in (NEW, OTHER))


def _secrets(services: Services, *words: str, **settings: str) -> str:
    return output_of("secrets", *words, database_url=services.database._url, **settings)


async def _open(services: Services, link: OffsetLink, key: str) -> list[str]:
    async with services.database.connection() as connection:
        return await open_link_secrets(connection, link, SecretBox(parse_key(key)), utc_now())


async def _link(services: Services, world: World) -> OffsetLink:
    async with services.database.transaction() as tx:
        await check_secret_key(tx, services.settings, ALL_SEALED)
    return await make_link(services, world.ours_test.scope)


async def test_changing_the_key_keeps_the_secrets_of_links(services: Services, world: World) -> None:
    link = await _link(services, world)
    async with services.database.transaction() as tx:
        new = await rotate_link_secret(tx, link, services.box, overlap_s=3600, by=TESTER.now())
    keys = {"secret_key": NEW, "secret_keys_old": services.settings.secret_key}
    assert _secrets(services, "rotate", **keys).splitlines() == [
        f"1 secret(s) encrypted again with key {NEW_ID}.",
        f"No value needs key {services.box.key_id} any more. You can remove it from TONNE_SECRET_KEYS_OLD.",
    ]
    assert await _open(services, link, NEW) == [new, LINK_SECRET]
    assert _secrets(services, "rotate", **keys) == f"0 secret(s) encrypted again with key {NEW_ID}."
    async with services.database.connection() as connection:
        actions = await connection.fetch(
            "SELECT subject_id FROM audit_log WHERE action = 'offset_link.secret_resealed'"
        )
    assert [row["subject_id"] for row in actions] == [link.id]


async def test_a_link_whose_secret_cannot_be_opened_is_reported(services: Services, world: World) -> None:
    link = await _link(services, world)
    lost = SecretBox(parse_key(OTHER)).seal(LINK_SECRET, link.id)
    async with services.database.transaction() as tx:
        await tx.execute("UPDATE offset_links SET secret_box = $2 WHERE id = $1", link.id, lost)
    url, key = services.database._url, services.settings.secret_key
    assert f"{OTHER_ID}  no" in _secrets(services, "status", secret_key=key)
    found = tonne("doctor", database_url=url, secret_key=key)
    assert f"- offset link {link.id}: it is sealed with key {OTHER_ID}, which is not configured" in found.stdout
    rotated = tonne("secrets", "rotate", database_url=url, secret_key=NEW, secret_keys_old=key)
    assert rotated.returncode == 1
    assert link.id in rotated.stderr
    printed = _secrets(services, "reset", "--yes", secret_key=NEW)
    assert f"- {link.id}" in printed.splitlines()
