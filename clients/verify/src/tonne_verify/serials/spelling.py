"""Spellings of registries and serials that mean the same."""

import re
import unicodedata

# The usual id of a registry by the other names that it has, as `plain_spelling` writes them.
_NAMES = {
    "VERRA": "VCS VERRAVCS VERRAREGISTRY VERIFIEDCARBONSTANDARD",
    "GOLDSTANDARD": (
        "GS GSF GOLDSTANDARDREGISTRY GOLDSTANDARDIMPACTREGISTRY GOLDSTANDARDFORTHEGLOBALGOALS GOLDSTANDARDFOUNDATION"
    ),
    "ACR": "AMERICANCARBONREGISTRY ACRATWINROCKINTERNATIONAL",
    "CAR": "CLIMATEACTIONRESERVE THERESERVE",
    "PURO": "PUROEARTH PUROREGISTRY PUROSTANDARD",
    "ISOMETRIC": "ISOMETRICREGISTRY",
    "PLANVIVO": "PLANVIVOFOUNDATION PLANVIVOSTANDARD",
    "BIOCARBON": "BIOCARBONREGISTRY BIOCARBONSTANDARD BCR PROCLIMA",
    "CERCARBONO": "CERCARBONOREGISTRY ECOREGISTRY",
    "CDM": "CDMREGISTRY UNFCCC UNFCCCCDM CLEANDEVELOPMENTMECHANISM",
}
REGISTRY_IDS = {name: registry for registry, names in _NAMES.items() for name in names.split()}
_LEFT_OUT = re.compile(
    r"[\x01-\x2f\x3a-\x40\x5b-\x60\x7b-\xbf\xd7\xf7\u2000-\u206f\u2212\u3000-\u303f]"  # spaces and punctuation
)
_ASCII_UPPER = {lower: lower - 32 for lower in range(ord("a"), ord("z") + 1)}
_DASHES = re.compile(r"[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]")


def plain_spelling(label: str) -> str:
    """Upper case, without spaces and punctuation."""
    return _LEFT_OUT.sub("", unicodedata.normalize("NFKC", label)).translate(_ASCII_UPPER)


def registry_id(registry: str) -> str:
    """One id for all names of a registry."""
    name = plain_spelling(registry)
    return REGISTRY_IDS.get(name, name)


def cleaned(text: str) -> str:
    """Any dash is a hyphen, any space a single one."""
    return " ".join(_DASHES.sub("-", unicodedata.normalize("NFKC", text)).split())
