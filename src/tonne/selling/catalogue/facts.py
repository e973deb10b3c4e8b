"""What follows from the catalogue without being written in it: kinds of bundles, registries by their usual names."""

from tonne.selling.catalogue.details import CarbonPermanence, OffsetType
from tonne.selling.catalogue.model import Bundle, Catalogue, Project
from tonne.selling.catalogue.pictures.drawings import MIXED, OTHER, motif_of

# By letters and digits of the name in the catalogue, in lower case.
_REGISTRIES = {
    "acr": "American Carbon Registry",
    "americancarbonregistry": "American Carbon Registry",
    "verra": "Verra",
    "vcs": "Verra",
    "verifiedcarbonstandard": "Verra",
    "puro": "Puro.earth",
    "puroearth": "Puro.earth",
    "goldstandard": "Gold Standard",
    "gs": "Gold Standard",
    "car": "Climate Action Reserve",
    "climateactionreserve": "Climate Action Reserve",
    "wcc": "Woodland Carbon Code",
    "woodlandcarboncode": "Woodland Carbon Code",
    "accu": "ACCU",
    "australiancarboncreditunits": "ACCU",
    "carbonfuture": "Carbon Future",
    "isometric": "Isometric",
    "tuvnord": "Tuv Nord",
    "tüvnord": "Tuv Nord",
}
_LONG_TERM_MOTIFS = {"rock", "air", "biochar"}
_SHORT_TERM_MOTIFS = {"forest", "soil", "ocean"}
_BY_LENGTH = (CarbonPermanence.NO_STORAGE, CarbonPermanence.SHORT_TERM, CarbonPermanence.LONG_TERM)
# Types of the Oxford principles: reduction without storage, with short and with long storage, removal with short and
# with long storage. A removal without storage does not exist; it counts as one with short storage.
_OXFORD_TYPES = {
    ("avoidance", CarbonPermanence.NO_STORAGE): 1,
    ("avoidance", CarbonPermanence.SHORT_TERM): 2,
    ("avoidance", CarbonPermanence.LONG_TERM): 3,
    ("removal", CarbonPermanence.NO_STORAGE): 4,
    ("removal", CarbonPermanence.SHORT_TERM): 4,
    ("removal", CarbonPermanence.LONG_TERM): 5,
}
_OFFSET_TYPES = {"avoidance": OffsetType.EMISSIONS_REDUCTION, "removal": OffsetType.CARBON_REMOVAL}
_COLOURS = {
    "cooking": "#c9653a",
    "wind": "#4a86a8",
    "solar": "#c9922b",
    "ocean": "#2f7f86",
    "biochar": "#4b4f54",
    "air": "#5f7fa6",
    "rock": "#6b6f78",
    "soil": "#7d6a44",
    "forest": "#3f8762",
    "water": "#3f7fa0",
    "gas": "#7a6aa0",
    MIXED: "#5f8a58",
    OTHER: "#56707a",
}


def registry_name(registry: str) -> str:
    """The usual name of a registry; empty if it is not one of the well-known ones."""
    return _REGISTRIES.get("".join(filter(str.isalnum, registry.casefold())), "")


def permanence_of(project: Project) -> CarbonPermanence:
    """As imported, or else by the type of the project."""
    if project.details.carbon_permanence is not None:
        return CarbonPermanence(project.details.carbon_permanence)
    motif = motif_of(project.type)
    if motif in _LONG_TERM_MOTIFS:
        return CarbonPermanence.LONG_TERM
    is_stored = motif in _SHORT_TERM_MOTIFS or project.mechanism == "removal"
    return CarbonPermanence.SHORT_TERM if is_stored else CarbonPermanence.NO_STORAGE


def oxford_type(project: Project) -> int:
    return project.details.oxford_type or _OXFORD_TYPES[project.mechanism, permanence_of(project)]


def offset_type_of(project: Project) -> OffsetType:
    return _OFFSET_TYPES[project.mechanism]


def bundle_offset_type(bundle: Bundle) -> OffsetType | None:
    """None if the projects are of both types, or there are none."""
    types = {offset_type_of(share.project) for share in bundle.projects}
    return types.pop() if len(types) == 1 else None


def bundle_permanence(bundle: Bundle) -> CarbonPermanence:
    """As imported, or else the shortest of its projects: a mix must not seem more durable than its weakest part."""
    if bundle.details.carbon_permanence is not None:
        return CarbonPermanence(bundle.details.carbon_permanence)
    found = [_BY_LENGTH.index(permanence_of(share.project)) for share in bundle.projects]
    return _BY_LENGTH[min(found, default=0)]


def background_colour(bundle: Bundle) -> str:
    if bundle.details.background_colour is not None:
        return bundle.details.background_colour
    motifs = {motif_of(share.project.type) for share in bundle.projects}
    return _COLOURS[motifs.pop() if len(motifs) == 1 else MIXED]


def bundles_by_project(catalogue: Catalogue) -> dict[str, list[Bundle]]:
    """In the order of the catalogue."""
    found: dict[str, list[Bundle]] = {}
    for bundle in catalogue.bundles.values():
        for share in bundle.projects:
            found.setdefault(share.project.id, []).append(bundle)
    return found
