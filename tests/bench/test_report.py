"""The verdict on a result, with goals in both directions."""

import pytest

from bench.report import Goal


@pytest.mark.parametrize(
    ("goal", "verdicts"),
    [
        (Goal(reach=0.4, aim=0.6), {0.39: "MISSED", 0.5: "reached", 0.6: "aim reached"}),
        (Goal(reach=3.2, aim=2.2, at_most=True), {3.3: "MISSED", 3.0: "reached", 2.2: "aim reached"}),
        (Goal(reach=1.0, at_most=True), {1.1: "MISSED", 0.5: "reached"}),
    ],
)
def test_a_result_misses_reaches_or_exceeds_its_goal(goal: Goal, verdicts: dict[float, str]) -> None:
    assert {ratio: goal.verdict(ratio) for ratio in verdicts} == verdicts
