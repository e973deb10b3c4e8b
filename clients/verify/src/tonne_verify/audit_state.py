"""What a monitor remembers of the logs that it has seen."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

from tonne_verify.canonical import read_json
from tonne_verify.errors import NotProven
from tonne_verify.files import write_text
from tonne_verify.notes import Checkpoint, VerifierKey, split_note

STATE_FORMAT = "tonne-audit/1"
MAX_ALARMS = 100


@dataclass(slots=True)
class SeenLog:
    """`checkpoint` is the newest signed note that was verified; the keys are those that the user trusted."""

    url: str
    mode: str
    keys: list[str]
    checkpoint: str
    seen_at: str
    # The origin of the log that continues this one, after `tonne log reopen`.
    continued_by: str | None = None
    # The signed note that the continuation has as its first entry.
    final: str | None = None

    @property
    def head(self) -> Checkpoint:
        return Checkpoint.parse(split_note(self.checkpoint)[0])

    @property
    def verifier_keys(self) -> list[VerifierKey]:
        return [VerifierKey.parse(each) for each in self.keys]


@dataclass(slots=True)
class AuditState:
    """`alarms` keep the signed checkpoints that prove what went wrong."""

    url: str
    logs: dict[str, SeenLog] = field(default_factory=dict)
    alarms: list[dict[str, str]] = field(default_factory=list)
    # Evidence of forks, each with the file that has it. They are reported at every audit.
    forks: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def load(cls, path: Path, url: str | None) -> Self:
        """A new state if the file does not exist. Without a URL it must exist, and may be that of any seller."""
        try:
            text = path.read_bytes()
        except FileNotFoundError:
            if url is not None:
                return cls(url)
            raise NotProven(f"{path} does not exist: `tonne-verify audit` makes it.") from None
        except OSError as error:
            raise NotProven(f"{path} cannot be read: {error.strerror}.") from None
        value: Any = read_json(text)
        try:
            if value["format"] != STATE_FORMAT:
                raise NotProven(f"{path} is not the state of an audit.")
            logs = {key: SeenLog(**each) for key, each in value["logs"].items()}
            state = cls(value["url"], logs, value["alarms"], value["forks"])
            for log in state.logs.values():
                _ = log.head, log.verifier_keys
        except (KeyError, TypeError, AttributeError):
            raise NotProven(
                f"{path} is damaged. Restore it from a backup: without it, the past is not known."
            ) from None
        if url is not None and state.url != url:
            raise NotProven(f"{path} belongs to {state.url}. Use another file for {url}.")
        return state

    def add_alarm(self, at: str, origin: str, sentence: str, checkpoint: str) -> None:
        """The same alarm is kept once, even if the audit runs every minute."""
        if all((each["sentence"], each["checkpoint"]) != (sentence, checkpoint) for each in self.alarms):
            self.alarms.append({"at": at, "origin": origin, "sentence": sentence, "checkpoint": checkpoint})
            del self.alarms[:-MAX_ALARMS]

    def add_fork(self, evidence: dict[str, Any], path: Path) -> None:
        """Keeps it in a file of its own, beside the state."""
        same = [each for each in self.forks if each["evidence"] == evidence]
        if not same:
            file = path.with_name(f"{path.name}.fork-{len(self.forks) + 1}.json")
            write_text(file, json.dumps(evidence, indent=2, ensure_ascii=False) + "\n")
            self.forks.append({"file": str(file), "evidence": evidence})

    def save(self, path: Path) -> None:
        """Replaces the file as a whole: a crash leaves the old state or the new one."""
        value = {"format": STATE_FORMAT, **asdict(self)}
        write_text(path, json.dumps(value, indent=2, ensure_ascii=False) + "\n")
