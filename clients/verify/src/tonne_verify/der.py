"""The lengths of DER, the encoding of signatures: each value has one length, in its shortest form."""

from tonne_verify.errors import NotProven

CONSTRUCTED = 0x20
MAX_DEPTH = 40


def check_der(data: bytes) -> int:
    """Where the first value ends. Raises NotProven if it or a value in it is not in the only spelling."""
    return _end_of_value(data, 0, len(data), MAX_DEPTH)


def _end_of_value(data: bytes, at: int, limit: int, depth: int) -> int:
    if at + 2 > limit or data[at] & 0x1F == 0x1F or depth == 0:
        raise NotProven("The signature is damaged: it is not DER.")
    tag, length, start = data[at], data[at + 1], at + 2
    if length >= 0x80:
        count = length - 0x80
        length = int.from_bytes(data[start : start + count])
        start += count
        # Shorter forms exist for small numbers and for those with leading zeros; none at all for count 0.
        if count == 0 or start > limit or length < 0x80 or length.bit_length() <= 8 * (count - 1):
            raise NotProven("The signature is damaged: it is not DER.")
    end = start + length
    if end > limit:
        raise NotProven("The signature is damaged: it is cut off.")
    if tag & CONSTRUCTED:
        while start < end:
            start = _end_of_value(data, start, end, depth - 1)
    return end
