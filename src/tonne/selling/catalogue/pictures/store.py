"""SQL of pictures."""

from collections.abc import Sequence
from datetime import datetime

from msgspec import Struct

from tonne.platform.db.database import Connection, optional
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.pictures.model import Picture, PictureSize
from tonne.selling.catalogue.pictures.pictures import PictureKind


class PictureSubject(Struct, frozen=True):
    """A project or bundle that can have a picture. `picture` is the digest of the imported one."""

    kind: PictureKind
    id: str
    slug: str
    name: str
    picture: str | None


LIST_SUBJECTS = """
SELECT kind, id, slug, name, picture FROM (
    SELECT 'bundle' AS kind, id, slug, name, picture, position FROM bundles WHERE mode = $1
    UNION ALL
    SELECT 'project', id, slug, name, picture, 0 FROM projects WHERE mode = $1
) AS subjects
ORDER BY kind, position, slug
"""


async def list_subjects(connection: Connection, mode: Mode) -> list[PictureSubject]:
    """Bundles in the order of the catalogue, then projects by slug."""
    return [PictureSubject(**row) for row in await connection.fetch(LIST_SUBJECTS, mode)]


SAVE_PICTURE = """
INSERT INTO pictures (digest, size, content, created_at) SELECT $1, size, content, $4
FROM unnest($2::text[], $3::bytea[]) AS file (size, content)
ON CONFLICT (digest, size) DO NOTHING
"""


async def save_picture(tx: Connection, picture: Picture, now: datetime) -> None:
    await tx.execute(SAVE_PICTURE, picture.digest, list(picture.files), list(picture.files.values()), now)


SET_BUNDLE_PICTURE = "UPDATE bundles SET picture = $3 WHERE mode = $1 AND id = $2"
SET_PROJECT_PICTURE = "UPDATE projects SET picture = $3 WHERE mode = $1 AND id = $2"


async def set_picture(tx: Connection, mode: Mode, subject: PictureSubject, digest: str | None) -> None:
    statement = SET_BUNDLE_PICTURE if subject.kind == "bundle" else SET_PROJECT_PICTURE
    await tx.execute(statement, mode, subject.id, digest)


DELETE_UNUSED = """
DELETE FROM pictures WHERE digest = ANY ($1::text[])
  AND NOT EXISTS (SELECT FROM bundles WHERE bundles.picture = pictures.digest)
  AND NOT EXISTS (SELECT FROM projects WHERE projects.picture = pictures.digest)
"""


async def delete_unused(tx: Connection, digests: Sequence[str]) -> None:
    """Those that no project and no bundle of either mode has."""
    await tx.execute(DELETE_UNUSED, digests)


FIND_FILE = "SELECT content FROM pictures WHERE digest = $1 AND size = $2"


async def find_file(connection: Connection, digest: str, size: PictureSize) -> bytes | None:
    return optional(bytes, await connection.fetchval(FIND_FILE, digest, size))
