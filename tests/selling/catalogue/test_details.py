"""The optional columns of projects and bundles: how cells are read, what a file without them changes, what follows."""

from datetime import UTC, datetime

import pytest
from msgspec import structs

from tests.selling.catalogue.test_import_catalogue import PROJECTS, import_basics, run
from tests.selling.catalogue.test_import_rows import HEADERS, VALID, errors_in, places, read
from tonne.platform.db.database import Database
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.countries import country_of
from tonne.selling.catalogue.details import MediaType, ProjectDetails, ProjectMedia, ProjectYear
from tonne.selling.catalogue.facts import oxford_type, permanence_of, registry_name
from tonne.selling.catalogue.imports.plan import FileKind
from tonne.selling.catalogue.model import Bundle, BundleProject, Project
from tonne.selling.catalogue.store import load_catalogue

PHOTO = "image ; https://example.org/a.jpg ; Photo: Ann ; https://example.org/ann | video ; /films/b.mp4"
VALID_CELLS = {
    "latitude,longitude": "-6.85,39.7",
    "un_sdg": "13 | 1 | 13",
    "media": PHOTO,
    "timeline": "2019: Begins: at last | 2021: Grows",
    "carbon_storage_over_time": "2019 ; 1 ; 2.5 ; 0 ; 3 ; 4",
    "crediting_start_date,crediting_end_date": "2019-01-01,2019-01-01",
    "links,news": "Page ; https://example.org/p ; https://example.org/i.png,"
    "Article ; https://example.org/n ; 2024-02-29 ; About it",
    "impact_summary": "Nature ; Forest ; It grows. ; https://example.org/a.jpg ; forest",
    "datasets": "Cover ; By year. ; https://example.org/a.jpg ; https://example.org/data | Other ; Text. ; /b.jpg",
}


@pytest.mark.parametrize("columns", VALID_CELLS)
def test_cells_with_several_values_are_read(columns: str) -> None:
    header = f"{HEADERS[FileKind.PROJECTS]},{columns}"
    sheet = read(FileKind.PROJECTS, f"{header}\n{VALID[FileKind.PROJECTS]},{VALID_CELLS[columns]}\n".encode())
    assert not sheet.errors
    [row] = sheet.rows
    if columns == "un_sdg":
        assert row.un_sdg == [1, 13]
    elif columns == "media":
        assert row.media[0] == ProjectMedia(
            MediaType.IMAGE, "https://example.org/a.jpg", "Photo: Ann", "https://example.org/ann"
        )
        assert row.media[1] == ProjectMedia(MediaType.VIDEO, "/films/b.mp4")
    elif columns == "timeline":
        assert row.timeline == [ProjectYear(2019, "Begins: at last"), ProjectYear(2021, "Grows")]


BAD_CELLS = {
    "latitude,longitude": [("91,1", ["latitude"]), ("1,", ["longitude"]), ("1e1,0", ["latitude", "latitude"])],
    "un_sdg": [("18", ["un_sdg"]), ("1 || 2", ["un_sdg"]), (" | ".join(["1"] * 51), ["un_sdg"])],
    "media": [("photo ; https://example.org/a", ["media"]), ("image", ["media"]), ("image ; javascript:x", ["media"])],
    "timeline": [("Begins", ["timeline"]), ("19: x", ["timeline"])],
    "carbon_storage_over_time": [("2019 ; 1 ; 2", ["carbon_storage_over_time"])],
    "avg_annual_emission_reductions": [("-1", ["avg_annual_emission_reductions"])],
    "crediting_start_date,crediting_end_date": [("2020-01-01,2019-12-31", ["crediting_end_date"])],
    "quality_durability,quality_cobenefits": [("Good: lasts,", ["quality_additionality"])],
    "oxford_type": [("6", ["oxford_type"])],
    "impact_summary": [("Nature ; Forest ; It grows.", ["impact_summary"])],
    "datasets": [("Cover ; https://example.org/data", ["datasets"])],
    "links": [("Page ; https://example.org/p", ["links"])],
    "carbon_permanence": [("forever", ["carbon_permanence"])],
}


@pytest.mark.parametrize("columns", BAD_CELLS)
def test_errors_name_the_cell(columns: str) -> None:
    for cells, expected in BAD_CELLS[columns]:
        found = errors_in(
            FileKind.PROJECTS,
            f"{VALID[FileKind.PROJECTS]},{cells}",
            header=f"{HEADERS[FileKind.PROJECTS]},{columns}",
        )
        assert {column for _, column in places(found)} >= set(expected), (cells, found)
        assert all(line == 2 for line, _ in places(found))


def test_the_colour_of_a_bundle_is_a_hexadecimal_number() -> None:
    header = f"{HEADERS[FileKind.BUNDLES]},approach,background_colour"
    line = VALID[FileKind.BUNDLES]
    assert errors_in(FileKind.BUNDLES, f"{line},innovative,#A1b2C3", header=header) == []
    found = errors_in(FileKind.BUNDLES, f"{line},new,red", header=header)
    assert places(found) == [(2, "approach"), (2, "background_colour")]


async def test_a_file_without_the_columns_keeps_the_details(db: Database) -> None:
    await import_basics(db)
    header, *lines = PROJECTS.splitlines()
    detailed = "\n".join([f"{header},short_name,un_sdg", *(f"{line},Short,7" for line in lines)])
    assert (await run(db, {FileKind.PROJECTS: detailed})).changed
    assert not (await run(db, {FileKind.PROJECTS: PROJECTS})).changed
    async with db.snapshot() as tx:
        catalogue = await load_catalogue(tx, Mode.TEST, "")
    assert catalogue is not None
    details = [project.details for project in catalogue.projects.values()]
    assert {(each.short_name, tuple(each.un_sdg or ())) for each in details} == {("Short", (7,))}
    emptied = detailed.replace(",Short,7", ",,7")
    assert (await run(db, {FileKind.PROJECTS: emptied})).changed
    async with db.connection() as connection:
        assert await connection.fetchval("SELECT bool_and(details = '{\"un_sdg\": [7]}') FROM projects")


def project_of(type_: str, mechanism: str, **details: object) -> Project:
    texts = ("prj_1", "Verra", "1", "Name", "name", "Kenya", type_, None, mechanism, None, None, None)
    return Project(*texts, created_at=datetime(2026, 1, 1, tzinfo=UTC), details=ProjectDetails(**details))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("project", "permanence", "oxford"),
    [
        (project_of("Wind", "avoidance"), "no_storage", 1),
        (project_of("Forest conservation", "avoidance"), "short_term", 2),
        (project_of("Reforestation", "removal"), "short_term", 4),
        (project_of("Enhanced weathering", "removal"), "long_term", 5),
        (project_of("Something new", "removal"), "short_term", 4),
        (project_of("Wind", "avoidance", carbon_permanence="long_term"), "long_term", 3),
        (project_of("Wind", "avoidance", oxford_type=5), "no_storage", 5),
    ],
)
def test_storage_and_type_follow_from_the_kind_of_project(project: Project, permanence: str, oxford: int) -> None:
    assert (permanence_of(project), oxford_type(project)) == (permanence, oxford)


def test_a_mixed_bundle_is_neither_removal_nor_avoidance() -> None:
    made = datetime(2026, 1, 1, tzinfo=UTC)
    bundle = Bundle("bun_1", "b", "B", "", None, 1000, enabled=True, created_at=made, projects=())
    shares = [BundleProject(project_of("Wind", mechanism), 1, 1) for mechanism in ("removal", "avoidance")]
    mixes: tuple[tuple[list[BundleProject], str], ...] = (
        (shares[:1], "removal"),
        (shares[1:], "avoidance"),
        (shares, "mixed"),
        ([], ""),
    )
    for projects, mechanism in mixes:
        assert structs.replace(bundle, projects=tuple(projects)).mechanism == mechanism


def test_registries_and_countries_get_their_usual_names() -> None:
    assert [registry_name(name) for name in ("ACR", "verra", "Puro.Earth", "CAR", "TÜV NORD", "Other")] == [
        *("American Carbon Registry", "Verra", "Puro.earth", "Climate Action Reserve", "Tuv Nord"),
        "",
    ]
    assert country_of("Viet Nam")[:3] == ("VNM", "Vietnam", "Asia")
    assert country_of("ke")[:3] == ("KEN", "Kenya", "Africa")
    assert country_of("Atlantis") == ("", "Atlantis", "", 0, 0)
