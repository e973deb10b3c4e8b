"""The jobs that make partitions and remove old rows."""

from collections.abc import Awaitable, Callable, Mapping

from tonne.apps.privacy.retention.make_partitions import MakePartitions
from tonne.apps.privacy.retention.remove_partitions import RemovePartitions
from tonne.platform.db.database import Database
from tonne.platform.events.trace_store import PruneTraces
from tonne.platform.http.request_log.prune_requests import PruneRequests
from tonne.platform.keys.replays.respond_once import PruneResponses
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock

EVERY_S = 300


def retention_jobs(database: Database, clock: Clock, settings: Settings) -> Mapping[str, Callable[[], Awaitable[bool]]]:
    return {
        "make_partitions": MakePartitions(database, clock).run_once,
        "prune_requests": PruneRequests(database, clock).run_once,
        "prune_responses": PruneResponses(database, clock).run_once,
        "prune_traces": PruneTraces(database).run_once,
        "remove_partitions": RemovePartitions(database, clock, settings).run_once,
    }
