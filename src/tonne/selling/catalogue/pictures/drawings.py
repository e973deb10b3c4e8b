"""Drawn pictures for projects and bundles without an imported one: a landscape with a motif for the type of project."""

import re
from functools import cache
from importlib import resources

from msgspec import Struct
from msgspec.structs import asdict

from tonne.platform.http.static_files import StaticFile

# In this order: the first motif with a word in the type of the project.
_WORDS = {
    "cooking": "cook stove",
    "wind": "wind",
    "solar": "solar photovoltaic",
    "ocean": "mangrove blue ocean seagrass kelp coastal wetland tidal",
    "biochar": "biochar charcoal pyrolysis",
    "air": "air dac",
    "rock": "weathering geologic mineral oil basalt rock concrete storage beccs",
    "soil": "soil grass agricultur farm rice graz crop ranch livestock",
    "forest": "forest tree redd afforest reforest agroforest wood plant conservation peat",
    "water": "hydro water biogas river tidal",
    "gas": "ozone refrigerant methane landfill gas waste leak n2o",
}
MIXED, OTHER = "mixed", "other"
VARIANTS = 3
_ATTRIBUTES = 'xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 360" preserveAspectRatio="xMidYMid slice"'


class _Light(Struct, frozen=True):
    """Colours of a time of day: sky from top to bottom, sun, hills from far to near, and the objects on them."""

    top: str
    bottom: str
    sun: str
    sun_x: int
    far: str
    middle: str
    near: str
    dark: str
    bright: str


_LIGHTS = (
    _Light("#cfe6ee", "#f4f1df", "#fff6d6", 500, "#a9ccb4", "#6fae87", "#3f8762", "#1f5a41", "#fffdf4"),
    _Light("#f6d9bd", "#fbf0d8", "#fff3c4", 150, "#d9c29a", "#9fae74", "#5f8a58", "#2f5a3e", "#fffaf0"),
    _Light("#b9cfe6", "#e6eef0", "#ffffff", 548, "#9fbccb", "#6a9aa3", "#37737a", "#1c4a54", "#f7fcff"),
)
# Files in the folder `scenes`: fragments of SVG with the names of colours in braces.
_BACKGROUND = ("sky", "hills")
MOTIFS = (*_WORDS, MIXED, OTHER)


def motif_of(project_type: str) -> str:
    words = re.findall(r"[a-z0-9]+", project_type.lower())
    for motif, beginnings in _WORDS.items():
        if any(word.startswith(tuple(beginnings.split())) for word in words):
            return motif
    return OTHER


@cache
def drawing(motif: str, variant: int) -> StaticFile:
    """An SVG image. There are `VARIANTS` of each motif, with the colours of different times of day."""
    colours = asdict(_LIGHTS[variant])
    folder = resources.files("tonne.selling.catalogue.pictures") / "scenes"
    parts = "".join((folder / f"{name}.svg").read_text("utf-8") for name in (*_BACKGROUND, motif))
    scene = re.sub(r"\{(\w+)\}", lambda found: str(colours[found[1]]), parts.replace("\n", ""))
    return StaticFile.of("drawing.svg", f"<svg {_ATTRIBUTES}>{scene}</svg>".encode())
