"""For how many weeks the supply of each project lasts, at the sales of the last eight weeks."""

from collections.abc import Mapping
from datetime import date

from msgspec import Struct

from tonne.platform.db.database import Connection
from tonne.platform.values.context import Mode
from tonne.selling.catalogue.model import Catalogue

SALES_DAYS = 56
# Below this, a project is shown on Today.
SHORT_WEEKS = 4.0


class ProjectCover(Struct, frozen=True):
    """`weeks` is None for a project that sold nothing."""

    project_id: str
    project_name: str
    free_grams: int
    weekly_grams: int
    weeks: float | None

    @property
    def is_short(self) -> bool:
        return self.free_grams == 0 or (self.weeks is not None and self.weeks < SHORT_WEEKS)


class Sales(Struct, frozen=True):
    """What was sold of each project in so many days."""

    days: int
    grams: Mapping[str, int]


# The newest day, and the oldest of the eight weeks before it.
READ_SOLD = """
WITH newest AS (SELECT max(day) AS day FROM supply_days WHERE mode = $1)
SELECT day, project_id, sold_grams FROM supply_days
WHERE mode = $1 AND (day = (SELECT day FROM newest) OR day = (
    SELECT min(each.day) FROM supply_days each
    WHERE each.mode = $1 AND each.day >= (SELECT newest.day FROM newest) - $2::integer))
"""


async def read_sales(connection: Connection, mode: Mode) -> Sales:
    """Nothing before two days were noted."""
    by_day: dict[date, dict[str, int]] = {}
    for row in await connection.fetch(READ_SOLD, mode, SALES_DAYS):
        by_day.setdefault(row["day"], {})[row["project_id"]] = row["sold_grams"]
    if len(by_day) < 2:
        return Sales(0, {})
    first, last = sorted(by_day)
    sold = {id_: max(0, grams - by_day[first].get(id_, 0)) for id_, grams in by_day[last].items()}
    return Sales((last - first).days, sold)


def cover_of(catalogue: Catalogue, sales: Sales) -> list[ProjectCover]:
    """The cover of all projects in bundles that are on sale, the shortest first."""
    free = {
        share.project.id: share.free_grams
        for bundle in catalogue.bundles.values()
        if bundle.enabled
        for share in bundle.projects
    }
    covers = [_cover(catalogue.projects[id_].name, id_, grams, sales) for id_, grams in free.items()]
    return sorted(
        covers, key=lambda cover: (cover.free_grams > 0, cover.weeks is None, cover.weeks or 0, cover.project_name)
    )


def _cover(name: str, project_id: str, free_grams: int, sales: Sales) -> ProjectCover:
    weekly = sales.grams.get(project_id, 0) * 7 // sales.days if sales.days else 0
    return ProjectCover(project_id, name, free_grams, weekly, free_grams / weekly if weekly else None)
