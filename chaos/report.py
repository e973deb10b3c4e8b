"""One line per scenario, its problems below it, and a summary."""

import sys

from chaos.checker import Tally
from chaos.cluster import Cluster

SHOWN = 20


class Report:
    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._count = self.failed = 0
        print(f"seed {seed}", flush=True)

    def add(self, name: str, cluster: Cluster, tally: Tally, took_s: float) -> None:
        problems = [*cluster.problems, *tally.problems, *cluster.missing_faults()]
        problems += [error for receiver in cluster.receivers for error in receiver.errors]
        fired = ", ".join(f"{fault.name} {fault.count}x" for fault in cluster.faults)
        facts = [
            f"{tally.requests} requests",
            f"{tally.events} events",
            f"{tally.redelivered} redelivered",
            *([f"{tally.unsettled} acknowledged but not settled"] if tally.unsettled else []),
            *([f"{tally.overlaps} overlapping"] if tally.overlaps else []),
            *([f"{tally.lost_orders} confirmed orders lost"] if tally.lost_orders else []),
            *([f"{tally.lost_events} delivered events lost"] if tally.lost_events else []),
            *cluster.notes,
        ]
        print(f"{'FAILED' if problems else 'ok    '} {name:<22} {took_s:5.1f} s  {fired} | {', '.join(facts)}")
        for problem in problems[:SHOWN]:
            print(f"         - {problem}")
        if len(problems) > SHOWN:
            print(f"         - and {len(problems) - SHOWN} more")
        sys.stdout.flush()
        self._count += 1
        self.failed += bool(problems)

    def print_summary(self, took_s: float) -> None:
        verdict = f"{self.failed} failed" if self.failed else "all promises kept"
        print(f"{self._count} scenarios in {took_s:.0f} s, {verdict} (seed {self.seed})", flush=True)
