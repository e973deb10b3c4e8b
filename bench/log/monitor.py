"""`tonne-verify monitor`: 50 logs that disclose their retirements, and one unit that two of them have retired."""

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.pace import LogPace
from bench.report import Goal, NotMeasured, Result

LOGS = 50
LINE = (
    '{{"origin":"seller{log}.example/log","position":{position},"statement":{{"format":"tonne-statement/1",'
    '"kind":"retirement","mode":"live","subject":"par_{log}_{position}","at":"2026-03-01T10:00:00Z","facts":'
    '{{"registry":"verra","project_id":"VCS-{project}","vintage":"2024","serial_range":'
    '"9731-{first}-{last}-VCS-VCU-1-VER-KE-1-{project}-01012024-31122024-0","retired_on":"2026-03-01",'
    '"retirement_url":null,"quantity":"10"}},"names":null}},"salt":"{position:064x}","names":null,"names_salt":null}}\n'
)
# Prints the report and the largest memory of the process in KiB.
PROGRAM = """
import json, resource, sys
from tonne_verify.double_sales import find_double_sales
report = find_double_sales(sys.argv[1:])
print(json.dumps([report.to_json(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss]))
"""


def monitor(pace: LogPace) -> list[Result]:
    with tempfile.TemporaryDirectory(prefix="bench-monitor-") as folder:
        files = [_write(Path(folder) / f"{log}.jsonl", log, pace.disclosed // LOGS) for log in range(LOGS)]
        started = time.monotonic()
        found = subprocess.run([sys.executable, "-c", PROGRAM, *files], check=True, capture_output=True, text=True)
        elapsed_s = time.monotonic() - started
    report, memory_kib = json.loads(found.stdout)
    sentences = [each["sentence"] for each in report["checks"]]
    # Files alone accuse nobody: the exit code is 3.
    if report["exit_code"] != 3 or len(sentences) != 1 or "par_49_0 " not in sentences[0]:
        raise NotMeasured(f"The double sale was not found: {report}")
    return [
        Result("log_monitor_memory", memory_kib / 1024, "MiB", 1024, Goal(1.0, at_most=True)),
        Result("log_monitor_time", elapsed_s, "s", pace.disclosed / 10_000),
    ]


def _write(path: Path, log: int, count: int) -> str:
    """The first retirement of the last log has a unit of the first log."""
    with path.open("w", encoding="ascii") as file:
        for position in range(count):
            first = 10 * (position * LOGS + log)
            if (log, position) == (LOGS - 1, 0):
                first = 0
            file.write(LINE.format(log=log, position=position, project=log + 1, first=first, last=first + 9))
    return str(path)
