"""What `tonne doctor` warns of."""

from collections.abc import Sequence
from datetime import datetime

from tonne.platform.db.queues import Topic, WaitingCheck
from tonne.platform.settings.settings import Settings
from tonne.platform.settings.site_settings import REQUIRED_LINKS


def _missing_links(settings: Settings, _: datetime) -> Sequence[object]:
    return ([f"TONNE_{name.upper()}" for name in REQUIRED_LINKS if not getattr(settings, name)],)


WAITING = (
    WaitingCheck(
        "public pages name terms, privacy notice and imprint",
        "Live offset links are enabled, but their pages do not link to what a seller must publish.",
        "Set TONNE_TERMS_URL, TONNE_PRIVACY_URL and TONNE_IMPRINT_URL to https URLs, and restart Tonne.",
        """
        SELECT format('%s is not set', missing.name) AS "where"
        FROM unnest($1::text[]) WITH ORDINALITY AS missing (name, position)
        WHERE EXISTS (SELECT FROM offset_links WHERE offset_links.mode = 'live' AND offset_links.enabled)
        ORDER BY missing.position
        """,
        parameters=_missing_links,
        topic=Topic.SERVICE,
    ),
)
