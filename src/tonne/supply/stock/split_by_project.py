"""Split a quantity over the projects of a bundle, so that all orders together follow the weights. No I/O."""

from collections.abc import Sequence

from tonne.platform.values.amounts import GRAMS_PER_TONNE


def split_by_weight(grams: int, weights: Sequence[int], drawn: Sequence[int]) -> list[int]:
    """How much of each project an order gets: whole tonnes, and the remainder below a tonne from one project.

    `drawn` is what earlier orders were meant to get of each project. The projects that are furthest below their share
    come first; of equal ones, the first in the list. Splitting the remainder further would leave a fraction of a unit
    in every project.
    """
    if len(weights) == 1:
        return [grams]
    behind = _behind(grams, weights, drawn)
    weight = sum([weights[i] for i in behind])
    total = grams + sum([drawn[i] for i in behind])
    # What each project lacks of its share, in grams multiplied by `weight`. The sum is `grams * weight`.
    lacking = {i: total * weights[i] - drawn[i] * weight for i in behind}
    unit = GRAMS_PER_TONNE * weight
    targets = [0] * len(weights)
    for i, lack in lacking.items():
        targets[i] = lack // unit * GRAMS_PER_TONNE
        lacking[i] = lack % unit
    tonnes, rest_grams = divmod(grams, GRAMS_PER_TONNE)
    for _ in range(tonnes - sum(targets) // GRAMS_PER_TONNE):
        first = max(lacking, key=lacking.__getitem__)
        targets[first] += GRAMS_PER_TONNE
        lacking[first] -= unit
    if rest_grams:
        targets[max(lacking, key=lacking.__getitem__)] += rest_grams
    return targets


def _behind(grams: int, weights: Sequence[int], drawn: Sequence[int]) -> list[int]:
    """The projects that are below their share, counting this order. At least one is."""
    behind = list(range(len(weights)))
    while True:
        weight = sum([weights[i] for i in behind])
        total = grams + sum([drawn[i] for i in behind])
        below = [i for i in behind if drawn[i] * weight < total * weights[i]]
        if len(below) == len(behind):
            return behind
        behind = below


def without_common_part(weights: Sequence[int], drawn: Sequence[int]) -> list[int]:
    """The same distances from the shares in small numbers, so that a sum over all orders never overflows a column."""
    rounds = min((grams // weight for grams, weight in zip(drawn, weights, strict=True)), default=0)
    return [grams - rounds * weight for grams, weight in zip(drawn, weights, strict=True)]
