"""Changing the Sustainability page of an account, and closing a customer with all accounts, stored cards and public
pages.
"""

from datetime import datetime

from msgspec import Struct

from tonne.channels.public_pages import errors, model, schemas, store
from tonne.money.cards.stored_cards.stored_cards import schedule_removal
from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, Scope, replace
from tonne.platform.values.errors import Fault, Invalid
from tonne.selling.accounts.change_account import close_organisation, reopen_organisation
from tonne.selling.accounts.logos.store import Logo, set_logo
from tonne.selling.accounts.store import lock_account


async def read_page(connection: Connection, scope: Scope) -> model.SustainabilityPage:
    """The account's page. If it was never set up, a disabled page with a free slug."""
    page = await store.find_page(connection, scope)
    if page is not None:
        return page
    owner = await store.find_owner(connection, scope)
    candidates = list(model.slug_candidates((owner.account_name, owner.organisation_name), scope.account_id))
    taken = await store.find_taken(connection, scope, candidates)
    return model.SustainabilityPage(
        scope=scope,
        slug=next((slug for slug in candidates if slug not in taken), candidates[-1]),
        enabled=False,
        title=f"Carbon credits retired for {owner.beneficiary}"[: model.MAX_TITLE],
        description="",
        sections=model.DEFAULT_SECTIONS,
        logo_version=owner.logo_version,
        updated_at=None,
    )


# A page keeps every slug it had. Without a limit, one account could take all the good ones.
MAX_SLUGS = 20


class PageChange(Struct, frozen=True, kw_only=True):
    """Fields that are None keep their value. To remove the logo, set `removes_logo`."""

    enabled: bool | None = None
    slug: str | None = None
    title: str | None = None
    description: str | None = None
    title_format: model.TitleFormat | None = None
    description_format: model.DescriptionFormat | None = None
    sections: list[model.PageSection] | None = None
    logo: Logo | None = None
    removes_logo: bool = False


async def change_page(
    tx: Connection,
    scope: Scope,
    change: PageChange,
    *,
    by: By,
    must_exist: bool | None = None,
) -> model.SustainabilityPage:
    """Locks the account, so that changes run one after another. The previous slug redirects to the page.

    `must_exist` requires that the page was set up before, or that it was not.
    """
    # The page itself has no row to lock until it is first saved.
    await lock_account(tx, scope)
    old = await read_page(tx, scope)
    if must_exist is not None:
        _check_exists(old, must_exist=must_exist)
    new = replace(
        old,
        enabled=old.enabled if change.enabled is None else change.enabled,
        slug=old.slug if change.slug is None else model.check_slug(change.slug),
        title=old.title if change.title is None else model.check_title(change.title),
        description=old.description if change.description is None else model.check_description(change.description),
        sections=old.sections if change.sections is None else model.check_sections(change.sections),
        title_format=change.title_format or old.title_format,
        description_format=change.description_format or old.description_format,
    )
    if change.description_format is None:
        new = with_shown_text(new, old)
    if old.updated_at is None or new.slug != old.slug:
        await _take_slug(tx, scope, new.slug, by.at)
    await store.save_page(tx, scope, new, by.at)
    if change.logo is not None or change.removes_logo:
        await set_logo(tx, scope, change.logo)
    saved = await read_page(tx, scope)
    before, after = {} if old.updated_at is None else _audited_values(old), _audited_values(saved)
    await audit.record(tx, scope, "sustainability_page.changed", by=by, before=before, after=after)
    return saved


def _audited_values(page: model.SustainabilityPage) -> audit.Values:
    """The logo is represented by its version, a digest of its content."""
    return {
        "enabled": page.enabled,
        "slug": page.slug,
        "title": page.title,
        "description": page.description,
        "sections": list(page.sections),
        "title_format": page.title_format,
        "description_format": page.description_format,
        "logo": page.logo_version,
    }


def with_shown_text(new: model.SustainabilityPage, old: model.SustainabilityPage) -> model.SustainabilityPage:
    """A new text is shown, whatever was shown instead of the old one."""
    if new.description == old.description:
        return new
    return replace(new, description_format=model.DescriptionFormat.BY_CUSTOM_DESCRIPTION)


def _check_exists(page: model.SustainabilityPage, *, must_exist: bool) -> None:
    is_set_up = page.updated_at is not None
    if is_set_up and not must_exist:
        raise errors.SustainabilityPageExists
    if must_exist and not is_set_up:
        raise errors.SustainabilityPageNotFound("The account has no Sustainability page yet. Create it with POST.")


async def _take_slug(tx: Connection, scope: Scope, slug: str, now: datetime) -> None:
    if not await store.take_slug(tx, scope, slug, now):
        raise errors.SlugTaken(field="slug")
    if await store.count_slugs(tx, scope) > MAX_SLUGS:
        raise errors.SlugLimitReached(field="slug")


async def change_settings(
    tx: Connection, scope: Scope, settings: schemas.PageSettingsIn, *, must_exist: bool, by: By
) -> model.SustainabilityPage:
    """Replaces the settings. What they do not contain keeps its value: the heading, the other sections and the logo."""
    text = (settings.custom_description or "").strip()
    shown = settings.description or model.DescriptionFormat.BY_CUSTOM_DESCRIPTION
    if settings.description is model.DescriptionFormat.BY_CUSTOM_DESCRIPTION and not text:
        message = "custom_description is required with the description by_custom_description."
        raise Invalid([Fault("validation_error", message, "custom_description")])
    # Until the commit: another change could choose other sections.
    await lock_account(tx, scope)
    others = [
        section for section in (await read_page(tx, scope)).sections if section.value not in set(schemas.ChosenSection)
    ]
    change = PageChange(
        enabled=settings.status is schemas.PageStatus.ENABLED,
        slug=settings.slug,
        description=text,
        title_format=settings.title,
        description_format=shown,
        sections=[*others, *(model.PageSection(section) for section in settings.sections)],
    )
    try:
        return await change_page(tx, scope, change, by=by, must_exist=must_exist)
    except errors.SlugTaken as error:
        raise errors.SlugNotUnique(field="slug") from error


async def close_customer(tx: Connection, organisation_id: str, reason: str, *, disable_pages: bool, by: By) -> int:
    """Returns the number of its accounts. Stored cards are removed once no order needs them."""
    scopes = await close_organisation(tx, organisation_id, reason, by=by)
    for scope in scopes:
        await schedule_removal(tx, scope, by.at)
        if disable_pages:
            await disable_public_page(tx, scope, by=by)
    return len(scopes)


async def reopen_customer(tx: Connection, organisation_id: str, *, by: By) -> None:
    """Accounts that were closed themselves stay closed."""
    for scope in await reopen_organisation(tx, organisation_id, by=by):
        await schedule_removal(tx, scope, None)


async def disable_public_page(tx: Connection, scope: Scope, *, by: By) -> None:
    if (await read_page(tx, scope)).enabled:
        await change_page(tx, scope, PageChange(enabled=False), by=by)
