"""Files of forms."""

from tonne.apps.backoffice.catalogue.staged_imports import MAX_UPLOAD_BYTES
from tonne.apps.dashboard.viewer import Form
from tonne.platform.documents.sheets.read_sheet import SheetFile
from tonne.platform.http.route import Request


def read_upload(request: Request, form: Form, field: str, command: str) -> SheetFile | None:
    """The file of a form; None, with a fault, if there is none. `command` imports files that are too large."""
    sent = request.file(field)
    if sent is None or not sent.content:
        form.fail(field, "Choose a CSV file.")
        return None
    if len(sent.content) > MAX_UPLOAD_BYTES:
        megabytes = MAX_UPLOAD_BYTES // 1024 // 1024
        form.fail(field, f"The file is larger than {megabytes} MB. Import it with `{command}`, or split it.")
        return None
    return SheetFile(sent.name, sent.content)
