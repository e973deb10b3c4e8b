from typing import NoReturn

from tonne.platform.documents.sheets.errors import RowError, SheetInvalid
from tonne.platform.documents.sheets.read_sheet import SheetFile


def refuse(file: SheetFile, message: str, line: int | None = None) -> NoReturn:
    """Raise SheetInvalid with one error."""
    raise SheetInvalid([RowError(file.name, line, None, message)])
