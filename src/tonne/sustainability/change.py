"""Setting up, changing and renaming a Sustainability page."""

from dataclasses import dataclass, replace
from datetime import datetime

from tonne.accounts import audit
from tonne.base.scope import Scope
from tonne.db.pool import Connection
from tonne.sustainability import store
from tonne.sustainability.errors import SlugLimitReached, SlugTaken
from tonne.sustainability.model import (
    MAX_TITLE,
    Logo,
    Page,
    Section,
    check_description,
    check_sections,
    check_slug,
    check_title,
    slug_candidates,
)

# A page keeps every slug it had, so without a bound one account could take all the good ones.
MAX_SLUGS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What is None stays as it is; a logo goes only when `removes_logo` says so."""

    enabled: bool | None = None
    slug: str | None = None
    title: str | None = None
    description: str | None = None
    sections: list[Section] | None = None
    logo: Logo | None = None
    removes_logo: bool = False


async def read_page(connection: Connection, scope: Scope) -> Page:
    """The account's page; before it was ever set up, one that is not enabled, with a slug that is free."""
    page = await store.find_page(connection, scope)
    if page is not None:
        return page
    owner = await store.find_owner(connection, scope)
    candidates = list(slug_candidates((owner.account_name, owner.organisation_name), scope.account_id))
    taken = await store.find_taken(connection, scope, candidates)
    return Page(
        scope=scope,
        slug=next((slug for slug in candidates if slug not in taken), candidates[-1]),
        enabled=False,
        title=f"Carbon credits retired for {owner.beneficiary}"[:MAX_TITLE],
        description="",
        sections=tuple(Section),
        logo_version=None,
        updated_at=None,
    )


async def change_page(tx: Connection, scope: Scope, change: Change, *, actor: str, now: datetime) -> Page:
    """One change of a page at a time. The slug it had before leads to the page from then on, and stays its own."""
    await store.lock_account(tx, scope)
    old = await read_page(tx, scope)
    new = replace(
        old,
        enabled=old.enabled if change.enabled is None else change.enabled,
        slug=old.slug if change.slug is None else check_slug(change.slug),
        title=old.title if change.title is None else check_title(change.title),
        description=old.description if change.description is None else check_description(change.description),
        sections=old.sections if change.sections is None else check_sections(change.sections),
    )
    if old.updated_at is None or new.slug != old.slug:
        await _take_slug(tx, scope, new.slug, now)
    await store.save_page(tx, scope, new, now)
    if change.logo is not None or change.removes_logo:
        await store.save_logo(tx, scope, change.logo)
    await audit.record(
        tx,
        scope.organisation_id,
        actor=actor,
        action="sustainability_page.changed",
        subject_id=scope.account_id,
        at=now,
        enabled=new.enabled,
        slug=new.slug,
        title=new.title,
        sections=list(new.sections),
        logo="set" if change.logo is not None else "removed" if change.removes_logo else "kept",
    )
    return await read_page(tx, scope)


async def _take_slug(tx: Connection, scope: Scope, slug: str, now: datetime) -> None:
    if not await store.take_slug(tx, scope, slug, now):
        raise SlugTaken(field="slug")
    if await store.count_slugs(tx, scope) > MAX_SLUGS:
        raise SlugLimitReached(field="slug")
