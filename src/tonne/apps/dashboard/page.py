"""What pages of the dashboard work with."""

from msgspec import Struct

from tonne.apps.dashboard.layout import PageLayout
from tonne.platform.db.database import Database
from tonne.platform.events.notification import Notifier
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock


class DashboardPage(Struct, frozen=True):
    """A page adds what only it needs."""

    database: Database
    layout: PageLayout
    clock: Clock
    settings: Settings
    notifier: Notifier
