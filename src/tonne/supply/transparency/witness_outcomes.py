"""What comes of asking a witness for a cosignature."""

from enum import StrEnum

from msgspec import Struct


class WitnessProblem(StrEnum):
    """Why there is no cosignature."""

    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    # 404: it does not follow this log.
    UNKNOWN_LOG = "unknown_log"
    # 403: it knows another key of this log.
    SIGNATURE_REFUSED = "signature_refused"
    # 422: the tree that it has seen is not the beginning of ours.
    INCONSISTENT = "inconsistent"
    # 409: it has seen a larger tree, or another tree of the same size.
    LARGER_TREE = "larger_tree"
    OTHER_TREE = "other_tree"
    # Any other status.
    REFUSED = "refused"
    RESPONSE_INVALID = "response_invalid"
    COSIGNATURE_INVALID = "cosignature_invalid"

    @property
    def is_alarm(self) -> bool:
        """Whether the log may have gone back, or forked."""
        return self in {WitnessProblem.INCONSISTENT, WitnessProblem.LARGER_TREE, WitnessProblem.OTHER_TREE}


class Cosigned(Struct, frozen=True):
    """`line` is the verified signature line, with its newline; `size` is that of the cosigned tree."""

    line: str
    size: int


class NotCosigned(Struct, frozen=True):
    problem: WitnessProblem
    detail: str
