"""Signed PDFs for commands."""

from tonne.base.clock import utc_now
from tonne.base.secret_box import SecretBox
from tonne.base.settings import Settings
from tonne.db.connections import HeldConnection
from tonne.db.pool import Connection
from tonne.invoices.render_invoice import RenderInvoice
from tonne.signing.keys import SigningKeys
from tonne.signing.operator_key import has_outside_key
from tonne.signing.sign_documents import SignDocuments


def render_invoice(connection: Connection, settings: Settings) -> RenderInvoice:
    """Raises SettingsError if the key in the database is needed and the secret key is missing."""
    box = None if has_outside_key(settings) else SecretBox.from_settings(settings)
    keys = SigningKeys(HeldConnection(connection), box, settings, utc_now)
    return RenderInvoice(SignDocuments(keys, settings.document_time_stamp_url))
