"""What `tonne doctor` warns of: partitions that are not removed."""

from collections.abc import Sequence
from datetime import datetime

from tonne.apps.privacy.retention.remove_partitions import kept_days
from tonne.platform.db.queues import WaitingCheck
from tonne.platform.db.schema.partitions import PARTITION_END
from tonne.platform.settings.settings import Settings

# Days after which a partition should have been removed.
LATE_DAYS = 7


def _kept(settings: Settings, now: datetime) -> Sequence[object]:
    kept = {table.name: days for table, days in kept_days(settings, now).items() if days}
    return (list(kept), list(kept.values()))


WAITING = (
    WaitingCheck(
        "old rows are removed in time",
        "A partition has only rows that are older than the settings keep them. Something prevents its removal.",
        "Run `tonne archive run`: it removes the partition, or says what prevents it.",
        f"""
        SELECT format('%s, rows until %s', name, to_char(ends, 'YYYY-MM-DD')) AS "where"
        FROM (SELECT part.relname AS name, days, {PARTITION_END} AS ends
              FROM unnest($1::text[], $2::integer[]) AS kept (table_name, days)
              JOIN pg_inherits ON pg_inherits.inhparent = to_regclass(kept.table_name)
              JOIN pg_class part ON part.oid = pg_inherits.inhrelid) partitions
        WHERE ends < now() - (days + {LATE_DAYS}) * interval '1 day' ORDER BY ends, name
        """,  # noqa: S608 - only constants are inserted
        _kept,
    ),
)
