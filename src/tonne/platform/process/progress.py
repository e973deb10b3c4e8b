"""Progress of long work. A command shows it as a bar; in servers and tests nothing listens, and reports do nothing."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar

# Adds a number of finished steps.
Advance = Callable[[int], None]
# Opens a bar of a label and a number of steps.
OpenBar = Callable[[str, int], AbstractContextManager[Advance]]

_open_bar: ContextVar[OpenBar | None] = ContextVar("open_bar", default=None)


@contextmanager
def progress(label: str, total: int) -> Iterator[Advance]:
    """`with progress("Reading lots.csv", len(rows)) as advance: ... advance(1)`"""
    open_bar = _open_bar.get()
    if open_bar is None:
        yield lambda _: None
        return
    with open_bar(label, total) as advance:
        yield advance


@contextmanager
def shown_by(open_bar: OpenBar) -> Iterator[None]:
    """Show what is reported in this block, by tasks that it starts, too."""
    token = _open_bar.set(open_bar)
    try:
        yield
    finally:
        _open_bar.reset(token)
