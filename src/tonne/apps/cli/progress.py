"""Bars on a terminal for the progress that long work reports with `tonne.platform.process.progress`."""

import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import click

from tonne.apps.cli.table import shorten
from tonne.platform.process.progress import Advance, shown_by

# Removes the bar and shows the cursor, which the bar hides.
_ERASE = "\r\033[2K\033[?25h"
_LABEL_WIDTH = 32
# Shorter work would only make the terminal flicker.
_LEAST_STEPS = 2
# A bar is drawn again at most this often while it fills.
_DRAWINGS = 200


def bars_on_terminal() -> AbstractContextManager[None]:
    """Show progress on standard error, if both it and standard output are terminals and no --json or --csv is given."""
    if not (sys.stderr.isatty() and sys.stdout.isatty()) or os.environ.get("TERM") == "dumb" or _is_for_programs():
        return nullcontext()
    return shown_by(_bar)


def _is_for_programs() -> bool:
    context = click.get_current_context(silent=True)
    return context is not None and any(context.params.get(name) for name in ("as_json", "as_csv"))


@contextmanager
def _bar(label: str, total: int) -> Iterator[Advance]:
    if total < _LEAST_STEPS:
        yield lambda _: None
        return
    shown = shorten(label, _LABEL_WIDTH).ljust(_LABEL_WIDTH)
    bar = click.progressbar(length=total, label=shown, file=sys.stderr, update_min_steps=max(1, total // _DRAWINGS))
    try:
        bar.render_progress()
        yield bar.update
    finally:
        sys.stderr.write(_ERASE)
        sys.stderr.flush()
