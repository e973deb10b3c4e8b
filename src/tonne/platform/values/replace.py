"""`replace(value, field=…)`: a copy of a struct with some fields changed."""

from typing import TYPE_CHECKING

# The type checker verifies names and types of changed fields only for the function of the standard library.
if TYPE_CHECKING:
    from dataclasses import replace
else:
    from msgspec.structs import replace

__all__ = ["replace"]
