"""The operator's own wording of the notice on the right of withdrawal, by language."""

import tomllib
from pathlib import Path

import msgspec

from tonne.platform.values.language import LANGUAGES

_MAX_TEXT = 5000


class WithdrawalWording(msgspec.Struct, frozen=True):
    """`notice` informs the customer, who ticks a box beside `consent`."""

    notice: str
    consent: str


def read_withdrawal_texts(path: str) -> dict[str, WithdrawalWording]:
    """By language. Raises ValueError with what is wrong in the file; an empty path has no texts."""
    if not path:
        return {}
    try:
        tables = tomllib.loads(Path(path).expanduser().read_text(encoding="utf-8"))
        texts = msgspec.convert(tables, dict[str, WithdrawalWording])
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, msgspec.ValidationError) as error:
        raise ValueError(f"{path} needs a table such as [en] with the texts notice and consent: {error}") from error
    for language, wording in texts.items():
        if language not in LANGUAGES:
            raise ValueError(f"{path}: {language} is not one of {', '.join(LANGUAGES)}")
        if not all(0 < len(text.strip()) <= _MAX_TEXT for text in (wording.notice, wording.consent)):
            raise ValueError(f"{path}: notice and consent in [{language}] must have 1 to {_MAX_TEXT} characters")
    return texts
