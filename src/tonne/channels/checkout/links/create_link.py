from datetime import datetime

from tonne.channels.checkout.links import store
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.links.schemas import OffsetLinkIn
from tonne.channels.checkout.links.secret import new_link_secret
from tonne.channels.checkout.links.settings import LinkOwner, build_link, load_link_owner, record_link
from tonne.platform.db.database import Connection
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Actor, Scope


async def create_link(
    tx: Connection, owner: LinkOwner, body: OffsetLinkIn, *, box: SecretBox, actor: Actor, now: datetime
) -> tuple[OffsetLink, str]:
    """The link, and the secret that signs its queries. The secret is returned only here and by a rotation."""
    link = await build_link(tx, owner, body, old=None, now=now)
    secret = new_link_secret()
    await store.insert_link(tx, link, box.seal(secret, link.id))
    await record_link(tx, link, old=None, actor=actor, now=now)
    return link, secret


async def create_account_link(
    tx: Connection, scope: Scope, body: OffsetLinkIn, *, settings: Settings, actor: Actor, now: datetime
) -> tuple[OffsetLink, str]:
    """For callers without a cached catalogue."""
    owner, box = await load_link_owner(tx, scope, settings), SecretBox.from_settings(settings)
    return await create_link(tx, owner, body, box=box, actor=actor, now=now)
