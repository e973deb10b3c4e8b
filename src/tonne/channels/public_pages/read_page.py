from tonne.channels.public_pages import store
from tonne.channels.public_pages.model import DEFAULT_SECTIONS, MAX_TITLE, SustainabilityPage, slug_candidates
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Scope


async def read_page(connection: Connection, scope: Scope) -> SustainabilityPage:
    """The account's page. If it was never set up, a disabled page with a free slug."""
    page = await store.find_page(connection, scope)
    if page is not None:
        return page
    owner = await store.find_owner(connection, scope)
    candidates = list(slug_candidates((owner.account_name, owner.organisation_name), scope.account_id))
    taken = await store.find_taken(connection, scope, candidates)
    return SustainabilityPage(
        scope=scope,
        slug=next((slug for slug in candidates if slug not in taken), candidates[-1]),
        enabled=False,
        title=f"Carbon credits retired for {owner.beneficiary}"[:MAX_TITLE],
        description="",
        sections=DEFAULT_SECTIONS,
        logo_version=owner.logo_version,
        updated_at=None,
    )
