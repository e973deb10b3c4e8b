from datetime import datetime

from tonne.channels.public_pages.change_page import PageChange, change_page
from tonne.channels.public_pages.errors import SlugNotUnique, SlugTaken
from tonne.channels.public_pages.model import DescriptionFormat, PageSection, SustainabilityPage
from tonne.channels.public_pages.read_page import read_page
from tonne.channels.public_pages.settings_schemas import ChosenSection, PageSettingsIn, PageStatus
from tonne.platform.db.database import Connection
from tonne.platform.values.context import Actor, Scope
from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.accounts.store import lock_account


async def change_settings(
    tx: Connection, scope: Scope, settings: PageSettingsIn, *, must_exist: bool, actor: Actor, now: datetime
) -> SustainabilityPage:
    """Replaces the settings. What they do not contain keeps its value: the heading, the other sections and the logo."""
    text = (settings.custom_description or "").strip()
    shown = settings.description or DescriptionFormat.BY_CUSTOM_DESCRIPTION
    if settings.description is DescriptionFormat.BY_CUSTOM_DESCRIPTION and not text:
        message = "custom_description is required with the description by_custom_description."
        raise Invalid([Fault("validation_error", message, "custom_description")])
    # Until the commit: another change could choose other sections.
    await lock_account(tx, scope)
    others = [section for section in (await read_page(tx, scope)).sections if section.value not in set(ChosenSection)]
    change = PageChange(
        enabled=settings.status is PageStatus.ENABLED,
        slug=settings.slug,
        description=text,
        title_format=settings.title,
        description_format=shown,
        sections=[*others, *(PageSection(section) for section in settings.sections)],
    )
    try:
        return await change_page(tx, scope, change, actor=actor, now=now, must_exist=must_exist)
    except SlugTaken as error:
        raise SlugNotUnique(field="slug") from error
