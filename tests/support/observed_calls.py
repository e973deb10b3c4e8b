"""Observe the calls of a program with `sys.setprofile`."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType

from asyncpg.transaction import Transaction

import tonne
from tonne.platform.documents.mail.send_mail import compose_mail
from tonne.selling.orders import queue, store

_ROOT = Path(tonne.__file__).parent
_LOCKING_MODULES = {queue.__file__, store.__file__}


@contextmanager
def observed(observe: Callable[[FrameType], None]) -> Iterator[None]:
    """Call `observe` with each frame that begins or resumes, in this thread."""

    def profile(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            observe(frame)

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield
    finally:
        sys.setprofile(before)


class PassedPackages:
    """The packages outside `platform` that run from the first call of a function on."""

    def __init__(self, entry: Callable[..., object]) -> None:
        self._entry = entry.__code__
        self._has_begun = False
        self._files: set[str] = set()

    def __call__(self, frame: FrameType) -> None:
        self._has_begun = self._has_begun or frame.f_code is self._entry
        if self._has_begun:
            self._files.add(frame.f_code.co_filename)

    @property
    def names(self) -> set[str]:
        inside = [Path(name).relative_to(_ROOT).parts for name in self._files if name.startswith(f"{_ROOT}/")]
        return {"/".join(parts[:2]) for parts in inside if parts[0] != "platform"}


class ComposedMails:
    """Counts the mails that are composed, and which of them while their task has locked orders."""

    def __init__(self) -> None:
        self.count = 0
        self.while_locked: list[str] = []
        self._locking: dict[asyncio.Task[object] | None, str] = {}

    def __call__(self, frame: FrameType) -> None:
        code = frame.f_code
        if code is compose_mail.__code__:
            self.count += 1
            if (lock := self._locking.get(_current_task())) is not None:
                self.while_locked.append(lock)
        elif code is Transaction.__aexit__.__code__:
            self._locking.pop(_current_task(), None)
        elif _locks_orders(code):
            self._locking[_current_task()] = code.co_name


def _locks_orders(code: CodeType) -> bool:
    """By the house rules only these two modules lock orders that exist, in functions that take a transaction."""
    return code.co_filename in _LOCKING_MODULES and code.co_argcount > 0 and code.co_varnames[0] == "tx"


def _current_task() -> asyncio.Task[object] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
