"""A part of the dashboard: its pages and forms. Paths are relative to the organisation and mode."""

from msgspec import Struct, field

from tonne.apps.dashboard.viewer import MemberForm, MemberPage, OperatorForm, OperatorPage
from tonne.platform.http.limits.rate_limit import TokenBuckets
from tonne.platform.values.errors import TonneError
from tonne.selling.users.model import Right


class Section(Struct, frozen=True, kw_only=True):
    errors: tuple[type[TonneError], ...] = ()
    limits: tuple[TokenBuckets, ...] = ()
    # By path of a form with a file: how large its body may be.
    uploads: dict[str, int] = field(default_factory=dict)


class OrganisationSection(Section, frozen=True):
    """Pages of one organisation, at /dashboard/{mode}/{organisation_id}."""

    pages: dict[str, tuple[MemberPage, Right]]
    forms: dict[str, tuple[MemberForm, Right]] = field(default_factory=dict)


class OperatorSection(Section, frozen=True):
    """Pages of the operator, at /operator/{mode}."""

    pages: dict[str, OperatorPage]
    forms: dict[str, OperatorForm] = field(default_factory=dict)
