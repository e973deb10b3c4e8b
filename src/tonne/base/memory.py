"""What a long-lived process does once it is furnished."""

import ctypes
import gc

# Names and numbers of glibc's mallopt.
_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3
_KEPT_BYTES = 32 * 1024 * 1024


def freeze_startup_objects() -> None:
    """Take all objects of the start out of the garbage collector's sight: they stay, and are many.

    Otherwise it looks through them again and again: measured, 7 % of what a busy worker does. The rest it looks through
    less often than by default: nearly everything here goes by itself, when its request or batch is done.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    _keep_memory()


def _keep_memory() -> None:
    """Do not give a page or a batch back to the system only to ask for it again: fresh memory costs ten times a copy.

    A C library without this knob needs none.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_MMAP_THRESHOLD, _KEPT_BYTES)
        mallopt(_TRIM_THRESHOLD, 2 * _KEPT_BYTES)
