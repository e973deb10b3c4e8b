"""Archives of removed rows: whether they are there and complete."""

from collections.abc import Callable, Sequence
from pathlib import Path

from tonne.apps.privacy.retention.archive_file import ArchiveError, ArchiveManifest, check_size, read_manifest
from tonne.apps.privacy.retention.removal_store import RemovedPartition
from tonne.platform.process.progress import progress

ARCHIVES = "all archives are complete"
ARCHIVES_MEANING = "An archive of removed rows is missing or was changed. There is no other copy of them."
ARCHIVES_REMEDY = (
    "Restore it from a backup of the folder in TONNE_ARCHIVE_DIR, then run `tonne archive verify`. If another machine "
    "has the folder, run the command there."
)


def find_incomplete(
    archives: Sequence[RemovedPartition], folder: Path, check: Callable[[Path, ArchiveManifest], None] = check_size
) -> list[str]:
    """What is wrong with each. By default only manifests and lengths are checked: reading everything takes long."""
    found = []
    with progress("Checking archives", len(archives)) as advance:
        for removed in archives:
            if problem := _problem(removed, folder / str(removed.file_name), check):
                found.append(problem)
            advance(1)
    return found


def _problem(removed: RemovedPartition, path: Path, check: Callable[[Path, ArchiveManifest], None]) -> str | None:
    try:
        manifest = read_manifest(path)
        check(path, manifest)
    except ArchiveError as error:
        return str(error)
    if (manifest.sha256, manifest.row_count) != (removed.sha256, removed.row_count):
        return f"{path} is not the archive that was written when {removed.name} was removed."
    return None
