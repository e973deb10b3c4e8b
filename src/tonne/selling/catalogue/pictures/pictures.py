"""Addresses of the pictures of projects and bundles, for pages and mails. All of them are paths on this service.

`bundle_picture(bundle)` and `project_picture(project)` are for objects of the catalogue, `picture_url(catalogue, ...)`
for ids, for example those of an old order.
"""

from collections import Counter
from typing import Literal
from urllib.parse import urlsplit
from zlib import crc32

from tonne.selling.catalogue.demo import demo_image
from tonne.selling.catalogue.model import Bundle, Catalogue, Project
from tonne.selling.catalogue.pictures.drawings import MIXED, OTHER, VARIANTS, drawing, motif_of
from tonne.selling.catalogue.pictures.model import PictureSize

CARD, WIDE = PictureSize.CARD, PictureSize.WIDE
PictureKind = Literal["bundle", "project"]
_DEMO_IMAGES = "/images/bundles/"


def picture_url(catalogue: Catalogue, kind: PictureKind, subject_id: str, size: PictureSize = CARD) -> str:
    """Also for a project or bundle that has left the catalogue: it gets a drawing."""
    if kind == "bundle":
        bundle = catalogue.bundles.get(subject_id)
        return drawing_url(OTHER, subject_id) if bundle is None else bundle_picture(bundle, size)
    project = catalogue.projects.get(subject_id)
    return drawing_url(OTHER, subject_id) if project is None else project_picture(project, size)


def project_picture(project: Project, size: PictureSize = CARD) -> str:
    """The imported picture, or a drawing for the type of the project. URLs of other hosts are never used."""
    if project.picture is not None:
        return imported_url(project.picture, size)
    return drawing_url(motif_of(project.type), project.slug)


def bundle_picture(bundle: Bundle, size: PictureSize = CARD) -> str:
    """The imported picture, that of the demo catalogue, or a drawing for the types of the projects."""
    if bundle.picture is not None:
        return imported_url(bundle.picture, size)
    return _demo_url(bundle.primary_image) or drawing_url(_motif_of_bundle(bundle), bundle.slug)


def imported_url(digest: str, size: PictureSize = CARD) -> str:
    return f"/pictures/{digest}/{size}.webp"


def drawing_url(motif: str, seed: str) -> str:
    """The same drawing for the same seed, which may be any text."""
    variant = crc32(seed.encode()) % VARIANTS
    return f"/pictures/drawn/{motif}-{variant}.svg?v={drawing(motif, variant).digest}"


def _demo_url(image: str | None) -> str | None:
    path = urlsplit(image or "").path
    name = path.removeprefix(_DEMO_IMAGES)
    found = demo_image(name) if path.startswith(_DEMO_IMAGES) else None
    return None if found is None else f"{path}?v={found.digest}"


def _motif_of_bundle(bundle: Bundle) -> str:
    weights: Counter[str] = Counter()
    for share in bundle.projects:
        weights[motif_of(share.project.type)] += share.weight
    if not weights:
        return OTHER
    motif, weight = weights.most_common(1)[0]
    # All projects are of one kind, or nearly all.
    return motif if weight * 3 >= weights.total() * 2 else MIXED
