"""The work list grouped by registry and project."""

from collections.abc import Iterable
from datetime import datetime
from itertools import groupby

from msgspec import Struct

from tonne.supply.retirements.confirmations.work_list import Task


class ProjectGroup(Struct, frozen=True):
    """The credits of one project that are to be retired: `line_count` retirements at the registry."""

    project_id: str
    registry_project_id: str
    name: str
    line_count: int
    parcel_count: int
    grams: int
    opened_at: datetime


class RegistryGroup(Struct, frozen=True):
    registry: str
    projects: list[ProjectGroup]

    @property
    def grams(self) -> int:
        return sum(project.grams for project in self.projects)


def group_tasks(tasks: Iterable[Task]) -> list[RegistryGroup]:
    """Registries by name, within them the project that waits for the longest time first."""
    ordered = sorted(tasks, key=lambda task: (task.registry, task.project_id))
    groups = []
    for registry, of_registry in groupby(ordered, key=lambda task: task.registry):
        projects = [_project(list(each)) for _, each in groupby(of_registry, key=lambda task: task.project_id)]
        groups.append(RegistryGroup(registry, sorted(projects, key=lambda project: project.opened_at)))
    return groups


def _project(tasks: list[Task]) -> ProjectGroup:
    first = tasks[0]
    return ProjectGroup(
        first.project_id,
        first.registry_project_id,
        first.project_name,
        len(tasks),
        sum(len(task.parcel_ids) for task in tasks),
        sum(task.quantity_grams for task in tasks),
        min(task.opened_at for task in tasks),
    )
