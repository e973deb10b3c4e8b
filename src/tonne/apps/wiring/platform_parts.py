"""The parts of `platform`."""

from tonne.apps.wiring.queues import ALL_QUEUES
from tonne.platform.db.database import Database
from tonne.platform.db.queues import HoldWatch, QueueReader
from tonne.platform.db.replica import Reads
from tonne.platform.db.server.clock_drift import ClockDrift
from tonne.platform.documents.mail.send_outbox import SendMails
from tonne.platform.documents.mail.smtp import mail_from_settings
from tonne.platform.events.notification import Notifier
from tonne.platform.http.health import HealthEndpoints
from tonne.platform.http.limits.admission import Admission
from tonne.platform.http.limits.fair_share import FairShare
from tonne.platform.http.metrics_endpoint import MetricsEndpoint
from tonne.platform.http.security_txt import SecurityTxtEndpoints
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.keys.signing.keys import SignDocuments, SigningKeys
from tonne.platform.process.telemetry.machine_metrics import MachineMetrics
from tonne.platform.process.telemetry.metrics import Metrics
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import Clock, utc_now
from tonne.platform.web.render import FormGuard, Renderer

# Packages with templates of pages.
TEMPLATES = [
    *(
        "tonne.supply.transparency",
        "tonne.money.cards",
        "tonne.channels.checkout",
        "tonne.channels.public_pages",
        "tonne.channels.public_pages.site",
    ),
    *("tonne.apps.dashboard", "tonne.apps.workspace", "tonne.apps.backoffice"),
]


class PlatformParts:
    """What all parts of a process share. `process` is api or worker."""

    def __init__(self, database: Database, settings: Settings, clock: Clock = utc_now, *, process: str = "api") -> None:
        self.clock = clock
        self.database = database
        self.settings = settings
        self.box = SecretBox.from_settings(settings)
        self.signing_keys = SigningKeys(database, self.box, settings, clock)
        self.sign_documents = SignDocuments(self.signing_keys, settings.document_time_stamp_url)
        self.security_txt = SecurityTxtEndpoints(settings, clock)
        self.metrics = Metrics(process)
        self.reads = Reads(database, settings)
        self.queues = QueueReader(database, ALL_QUEUES)
        self.metrics_endpoint = MetricsEndpoint(self.metrics, self.queues, settings)
        self.machine = MachineMetrics(settings, self.signing_keys.document_expiry)
        self.hold = HoldWatch(database)
        self.health = HealthEndpoints(database, self.hold)
        self.clock_drift = ClockDrift(database)
        self.notifier = Notifier(database)
        # Waiting for a share holds no connection, so it may take as long as a statement.
        self.admission = Admission(
            settings.database_connections, max(1, settings.database_connections // 2), settings.statement_timeout_s
        )
        self.shares = FairShare(max(1, settings.database_connections // 2), settings.statement_timeout_s)
        self.renderer = Renderer(settings, TEMPLATES)
        self.form_guard = FormGuard(settings)
        self.mails = SendMails(database, mail_from_settings(settings), settings)
