"""`tonne secrets` also covers the secrets of links and the tokens of checkouts."""

import base64
from typing import Any

from tests.channels.checkout.shopper import LINK_SECRET, make_link
from tests.support.api_client import ApiClient
from tests.support.command import output_of, tonne
from tests.support.world import TESTER, World
from tonne.apps.wiring.app import Services
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.links.signed_query import open_link_secrets, rotate_link_secret
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.secret_keys import parse_key
from tonne.platform.values.context import utc_now

NEW = base64.b64encode(b"another secret: for tests, 32 B.").decode()


async def test_security_6_rotating_the_key_reseals_links_and_checkouts(
    services: Services, world: World, api: ApiClient, link: OffsetLink
) -> None:
    body = {"offset_link_id": link.id, "email": "ann@example.com", "quantity": "1"}
    made = (await api.post("/v1/checkouts", body)).json()
    await make_link(services, world.ours_test.scope)
    async with services.database.transaction() as tx:
        new = await rotate_link_secret(tx, link, services.box, overlap_s=60, by=TESTER.now())
        await tx.execute("INSERT INTO secret_keys (id) VALUES ($1)", services.box.key_id)
    keys: dict[str, Any] = {
        "database_url": services.database._url,
        "secret_key": NEW,
        "secret_keys_old": services.settings.secret_key,
    }
    lines = output_of("secrets", "rotate", **keys).splitlines()
    assert lines[0].startswith("3 secret(s) encrypted again with key")
    assert "You can remove it" in lines[1]
    box = SecretBox(parse_key(NEW))
    async with services.database.connection() as connection:
        assert await open_link_secrets(connection, link, box, utc_now()) == [new, LINK_SECRET]
        sealed = await connection.fetchval("SELECT token_box FROM checkouts")
        assert made["url"].endswith(box.open(sealed, made["id"]))
    done = tonne("doctor", database_url=services.database._url, secret_key=services.settings.secret_key)
    assert f"- offset link {link.id}: it is sealed with key {box.key_id}, which is not configured" in done.stdout
    assert f"- checkout {made['id']}: it is sealed with key" in done.stdout
    assert len(output_of("secrets", "rotate", **keys).splitlines()) == 1, "nothing is left to do"
