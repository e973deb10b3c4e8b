from datetime import datetime

from tonne.channels.checkout.errors import OffsetLinkNotFound
from tonne.channels.checkout.links import store
from tonne.channels.checkout.links.model import OffsetLink
from tonne.channels.checkout.links.schemas import OffsetLinkIn
from tonne.channels.checkout.links.settings import LinkOwner, build_link, record_link
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Actor, Scope


async def lock_link(tx: Connection, scope: Scope, link_id: str) -> OffsetLink:
    link = await store.lock_link(tx, scope, link_id)
    if link is None:
        raise OffsetLinkNotFound
    return link


async def replace_link(
    tx: Connection, owner: LinkOwner, old: OffsetLink, body: OffsetLinkIn, *, actor: Actor, now: datetime
) -> OffsetLink:
    """Replaces all settings; the id and the creation time stay. The caller has locked `old`."""
    link = await build_link(tx, owner, body, old=old, now=now)
    await store.update_link(tx, link)
    await record_link(tx, link, old=old, actor=actor, now=now)
    return link
