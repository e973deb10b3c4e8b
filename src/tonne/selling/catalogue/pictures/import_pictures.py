"""Import and remove the pictures of projects and bundles."""

from collections.abc import Sequence

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.events.audit import record as audit
from tonne.platform.values.context import By, Mode
from tonne.selling.catalogue.errors import PictureSubjectNotFound
from tonne.selling.catalogue.imports.store import acquire_import_lock, raise_version
from tonne.selling.catalogue.pictures import store as picture_store
from tonne.selling.catalogue.pictures.model import Picture
from tonne.selling.catalogue.pictures.pictures import PictureKind
from tonne.selling.catalogue.pictures.store import PictureSubject


class NamedPicture(Struct, frozen=True):
    """`name` is the slug or the id of the project or bundle."""

    kind: PictureKind
    name: str
    picture: Picture | None


async def import_pictures(
    tx: Connection, mode: Mode, named: Sequence[NamedPicture], *, by: By
) -> list[tuple[PictureSubject, bool]]:
    """Set the pictures of these projects and bundles; None removes one. Says for each whether it has changed.

    Raises PictureSubjectNotFound for a name that the catalogue does not have. Waits for a running import.
    """
    await acquire_import_lock(tx)
    subjects = await picture_store.list_subjects(tx, mode)
    known = {(subject.kind, name): subject for subject in subjects for name in (subject.id, subject.slug)}
    found = []
    for each in named:
        if (subject := known.get((each.kind, each.name))) is None:
            raise PictureSubjectNotFound(
                f"The {mode} catalogue has no {each.kind} “{each.name[:100]}”. `tonne picture list` lists their names."
            )
        found.append((subject, each.picture))
    outcome = [(subject, await _set(tx, mode, subject, picture, by=by)) for subject, picture in found]
    if any(changed for _, changed in outcome):
        await raise_version(tx, mode)
        # Removed ones only: pages and mails may still show a picture that was replaced.
        removed = [subject.picture for subject, picture in found if picture is None and subject.picture is not None]
        await picture_store.delete_unused(tx, removed)
    return outcome


async def _set(tx: Connection, mode: Mode, subject: PictureSubject, picture: Picture | None, *, by: By) -> bool:
    digest = None if picture is None else picture.digest
    if digest == subject.picture:
        return False
    if picture is not None:
        await picture_store.save_picture(tx, picture, by.at)
    await picture_store.set_picture(tx, mode, subject, digest)
    await audit.record(
        tx,
        None,
        f"{subject.kind}.picture_changed",
        by=by,
        subject_id=subject.id,
        mode=mode,
        before={"picture": subject.picture},
        after={"picture": digest},
        slug=subject.slug,
    )
    return True
