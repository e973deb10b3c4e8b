"""The arguments of SQL's format(), to look at what people read."""

from collections.abc import Iterator

_NESTING = {"(": 1, ")": -1}


def format_arguments(sql: str) -> Iterator[str]:
    """Those of every call, without the first one, which is the text."""
    for call in sql.split("format(")[1:]:
        found, depth, quoted = [""], 0, False
        for letter in call:
            quoted ^= letter == "'"
            depth += 0 if quoted else _NESTING.get(letter, 0)
            if depth < 0:
                break
            if letter == "," and not quoted and depth == 0:
                found.append("")
            else:
                found[-1] += letter
        yield from (" ".join(each.split()) for each in found[1:])
