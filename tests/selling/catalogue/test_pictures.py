"""Pictures of projects and bundles: re-encoded files, drawings, and that nothing leads to another host."""

import asyncio
import io
import struct
import zlib
from datetime import UTC, datetime
from pathlib import Path
from xml.etree import ElementTree as ET

import httpx
import pytest
from click.testing import CliRunner, Result
from PIL import Image

from tests.support.world import World
from tonne.apps.cli.main import main
from tonne.platform.db.database import Database
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.errors import PictureInvalid
from tonne.selling.catalogue.model import Bundle, BundleProject, Catalogue, Project
from tonne.selling.catalogue.pictures import drawings
from tonne.selling.catalogue.pictures.encode_picture import encode_picture
from tonne.selling.catalogue.pictures.pictures import CARD, WIDE, bundle_picture, picture_url, project_picture

NOW = datetime(2026, 1, 1, tzinfo=UTC)
SECRET = b"taken at 48.2N 16.3E"


def picture(width: int = 1920, height: int = 1440, file_format: str = "JPEG", colour: str = "#2f7a4f") -> bytes:
    """Upright half of another colour, with metadata of a camera that has turned it by 90 degrees."""
    image = Image.new("RGB", (width, height), colour)
    image.paste("#ffcc00", (0, 0, width // 2, height))
    exif = Image.Exif()
    exif[0x0112], exif[0x010E] = 6, SECRET.decode()
    file = io.BytesIO()
    image.save(file, file_format, exif=exif)
    return file.getvalue()


def decoded(content: bytes) -> Image.Image:
    image = Image.open(io.BytesIO(content))
    image.load()
    return image


def colour_at(image: Image.Image, x: int, y: int) -> tuple[int, ...]:
    found = image.getpixel((x, y))
    assert isinstance(found, tuple)
    return found


def bomb() -> bytes:
    """A PNG of a few bytes that claims 30,000 x 30,000 pixels."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", 30_000, 30_000, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


@pytest.mark.parametrize("file_format", ["JPEG", "PNG", "WEBP"])
def test_a_picture_is_cut_turned_upright_and_stripped(file_format: str) -> None:
    made = encode_picture(picture(file_format=file_format))
    card, wide = decoded(made.files[CARD]), decoded(made.files[WIDE])
    assert (card.format, card.size) == ("WEBP", (640, 360))
    # Turned by 90 degrees it is 1440 wide: it is not enlarged.
    assert wide.size == (1440, 810)
    assert all(SECRET not in file and b"EXIF" not in file for file in made.files.values())
    top, bottom = colour_at(card, 320, 20), colour_at(card, 320, 340)
    assert (top[0] > 200, bottom[0] < 90) == (True, True)
    assert (
        made.digest == encode_picture(picture(file_format=file_format)).digest != encode_picture(picture(1700)).digest
    )


def test_transparent_pixels_become_paper() -> None:
    file = io.BytesIO()
    Image.new("RGBA", (640, 360), (0, 0, 0, 0)).save(file, "PNG")
    assert min(colour_at(decoded(encode_picture(file.getvalue()).files[CARD]), 5, 5)) > 235


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "no JPEG, PNG or WebP"),
        (b"", "no JPEG, PNG or WebP"),
        (picture()[:3000], "incomplete or damaged"),
        (picture(200, 100), "only 200 x 100 pixels"),
        (bomb(), "more than 50 million pixels"),
        (b"x" * (20 * 1024 * 1024 + 1), "larger than 20 MB"),
    ],
)
def test_other_files_are_refused(content: bytes, message: str) -> None:
    with pytest.raises(PictureInvalid, match=message):
        encode_picture(content)


def test_drawings_are_small_plain_svg() -> None:
    for motif in drawings.MOTIFS:
        for variant in range(drawings.VARIANTS):
            svg = drawings.drawing(motif, variant).plain
            assert len(svg) < 1200
            assert b"{" not in svg
            tags = {element.tag.rpartition("}")[2] for element in ET.fromstring(svg).iter()}  # noqa: S314 - our own
            assert tags <= {"svg", "linearGradient", "stop", "path", "circle", "g", "use", "defs"}


def project(slug: str, project_type: str, image: str | None = None, digest: str | None = None) -> Project:
    names = ("Verra", "VCS1", "A project", slug, "Kenya", project_type, None, "avoidance", None, image, None)
    return Project(f"prj_{slug}", *names, created_at=NOW, picture=digest)


def test_addresses_of_pictures_never_leave_this_service() -> None:
    elsewhere = "https://elsewhere.example/a.jpg"
    wind, forest = project("a", "Wind", elsewhere), project("b", "Reforestation", elsewhere)
    shares = (BundleProject(wind, 1, 0), BundleProject(forest, 1, 0))
    bundle = Bundle("bun_1", "mix", "Mix", "", elsewhere, 1, True, NOW, shares)
    demo = Bundle("bun_2", "x", "X", "", "http://localhost:8080/images/bundles/wind-power.svg", 1, True, NOW, ())
    catalogue = Catalogue(
        Mode.TEST,
        "EUR",
        1,
        None,
        {each.id: each for each in (wind, forest)},
        {each.id: each for each in (bundle, demo)},
        {},
    )
    assert project_picture(wind).startswith("/pictures/drawn/wind-")
    assert bundle_picture(bundle).startswith("/pictures/drawn/mixed-")
    assert bundle_picture(demo).startswith("/images/bundles/wind-power.svg?v=")
    assert project_picture(project("c", "Wind", elsewhere, "ab" * 16), WIDE) == f"/pictures/{'ab' * 16}/wide.webp"
    assert picture_url(catalogue, "bundle", "bun_1") == bundle_picture(bundle)
    assert picture_url(catalogue, "project", "prj_b") == project_picture(forest)
    assert picture_url(catalogue, "project", "prj_gone").startswith("/pictures/drawn/other-")


async def test_pictures_are_imported_served_and_removed(
    populated_db: Database, world: World, browser: httpx.AsyncClient, tmp_path: Path
) -> None:
    def run(*words: str | Path) -> Result:
        environment = {"TONNE_DATABASE_URL": populated_db._url}
        result = CliRunner().invoke(main, ["picture", *map(str, words)], env=environment)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    async def command(*words: str | Path) -> Result:
        return await asyncio.to_thread(run, *words)

    for name in ("bundles/forest-mix.jpg", "projects/bale-mountains.png"):
        path = tmp_path / name
        path.parent.mkdir()
        path.write_bytes(picture(file_format="PNG" if name.endswith("png") else "JPEG"))
    broken = tmp_path / "bundles" / "wind-power.jpg"
    broken.write_bytes(b"not a picture")
    refused = await command("import", "--mode", "test", tmp_path)
    assert (refused.exit_code, "Nothing was imported: 1 error." in refused.output) == (1, True)
    broken.unlink()
    assert "bundle forest-mix: imported." in (await command("import", "--mode", "test", tmp_path)).output
    assert "project bale-mountains: no change." in (await command("import", "--mode", "test", tmp_path)).output
    unknown = await command("import", "--mode", "test", "--bundle", "no-such", tmp_path / "bundles" / "forest-mix.jpg")
    assert "The test catalogue has no bundle “no-such”." in unknown.output

    async with populated_db.connection() as connection:
        digest = await connection.fetchval("SELECT picture FROM bundles WHERE mode = 'test' AND slug = 'forest-mix'")
        actions = await connection.fetch("SELECT action FROM audit_log WHERE action LIKE '%picture%' ORDER BY action")
    assert [row["action"] for row in actions] == ["bundle.picture_changed", "project.picture_changed"]
    response = await browser.get(f"/pictures/{digest}/wide.webp")
    assert (response.status_code, response.headers["content-type"]) == (200, "image/webp")
    assert "immutable" in response.headers["cache-control"]
    assert decoded(response.content).size == (1440, 810)
    for missing in (f"/pictures/{digest}/huge.webp", f"/pictures/{'0' * 32}/card.webp", "/pictures/drawn/x.svg"):
        assert (await browser.get(missing)).status_code == 404
    drawn = await browser.get("/pictures/drawn/forest-1.svg")
    assert drawn.headers["content-type"] == "image/svg+xml"
    assert drawn.headers["content-security-policy"] == "default-src 'none'"

    listed = await command("list", "--mode", "test")
    assert digest in listed.output
    assert "drawn" in listed.output
    assert (
        "removed." in (await command("remove", "--mode", "test", "--bundle", world.bundles_test["forest-mix"])).output
    )
    assert (await browser.get(f"/pictures/{digest}/wide.webp")).status_code == 404
