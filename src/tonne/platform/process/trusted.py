"""The certificate authorities whom connections of this process trust."""

import functools
import ssl


@functools.cache
def trusting_context(ca_file: str = "") -> ssl.SSLContext:
    """The authorities in the file, or those of the system. Reading these takes 40 ms of CPU time, so all share one
    context: do not change it. Raises OSError if the file cannot be read."""
    return ssl.create_default_context(cafile=ca_file or None)
