"""Signed PDFs for commands."""

from tonne.money.invoices.documents.pdf import RenderInvoice
from tonne.platform.db.connections import HeldConnection
from tonne.platform.db.database import Connection
from tonne.platform.keys.secret_box import SecretBox
from tonne.platform.keys.signing.keys import SignDocuments, SigningKeys
from tonne.platform.keys.signing.operator_key import has_outside_key
from tonne.platform.settings.settings import Settings
from tonne.platform.values.context import utc_now


def render_invoice(connection: Connection, settings: Settings) -> RenderInvoice:
    """Raises SettingsError if the key in the database is needed and the secret key is missing."""
    box = None if has_outside_key(settings) else SecretBox.from_settings(settings)
    keys = SigningKeys(HeldConnection(connection), box, settings, utc_now)
    return RenderInvoice(SignDocuments(keys, settings.document_time_stamp_url))
