"""The audit log of one organisation, with the entries that its API keys of this mode may read."""

from tonne.apps.dashboard.audit_log import AuditLog, AuditSearch
from tonne.apps.dashboard.page import OrganisationSection
from tonne.apps.dashboard.viewer import MemberViewer
from tonne.platform.db.database import Connection
from tonne.platform.events.audit.store import AuditPage, list_entries
from tonne.platform.values.context import Actor, ActorKind, Scope, replace
from tonne.platform.values.paging import CursorInvalid, Position
from tonne.selling.users.model import Right


class AuditLogPage(AuditLog[MemberViewer], frozen=True):
    def section(self) -> OrganisationSection:
        return OrganisationSection(
            pages={"/audit": (self.show, Right.VIEW), "/audit/export": (self.export, Right.VIEW)},
            errors=(CursorInvalid,),
        )

    async def read(
        self, connection: Connection, viewer: MemberViewer, search: AuditSearch, start: Position, *, limit: int
    ) -> AuditPage:
        # The log belongs to the organisation: no account is needed to read it.
        scope = Scope(viewer.organisation_id, "", viewer.mode)
        requested = replace(search.filter(None), actor=_stored_actor(search.fields["actor"]))
        found = await list_entries(connection, scope, requested, start, limit + 1)
        last = found[limit - 1] if len(found) > limit else None
        return AuditPage(found[:limit], None if last is None else Position(last.created_at, last.id))


def _stored_actor(text: str) -> str | None:
    """From the id of a key, a user or a link, or the name of a job, as the log stores it."""
    kinds = {"key": ActorKind.KEY, "usr": ActorKind.USER, "lnk": ActorKind.PAYER}
    return str(Actor(kinds.get(text.partition("_")[0], ActorKind.SYSTEM), text)) if text else None
