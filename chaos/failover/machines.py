"""A network of its own for each database machine: it can be cut off while everything on it runs on. Needs root."""

import contextlib
import os
import subprocess
from collections.abc import Iterable

from chaos.failover.member import find_program
from chaos.model import NotAsExpected


class Machines:
    """A network namespace per machine, with its cable in one switch. This machine is in the switch, too, as `.1`."""

    def __init__(self, endings: Iterable[str]) -> None:
        if os.geteuid() != 0:
            raise NotAsExpected("networks of database machines need root")
        # Not those of another run on this machine. 198.18.0.0/15 is reserved for tests.
        self.network = f"198.18.{os.getpid() % 256}."
        self._switch = f"tonne{os.getpid()}"
        self._endings = tuple(endings)
        self._ip("link", "add", self._switch, "type", "bridge")
        self._ip("address", "add", f"{self.network}1/24", "dev", self._switch)
        self._ip("link", "set", self._switch, "up")
        for ending in self._endings:
            name = self._name(ending)
            self._ip("netns", "add", name)
            self._ip("link", "add", name, "type", "veth", "peer", "name", "eth0", "netns", name)
            self._ip("-n", name, "address", "add", f"{self.network}{ending}/24", "dev", "eth0")
            self._ip("-n", name, "link", "set", "lo", "up")
            self._ip("-n", name, "link", "set", "eth0", "up")
            self._ip("link", "set", name, "up")
            self.reconnect(ending)

    def command_on(self, ending: str) -> list[str]:
        """What executes the command that follows it on this machine."""
        return ["nsenter", f"--net=/run/netns/{self._name(ending)}", "--"]

    def cut(self, ending: str) -> None:
        """Packets from and to this machine are dropped; no connection is closed."""
        self._ip("link", "set", self._name(ending), "nomaster")

    def reconnect(self, ending: str) -> None:
        self._ip("link", "set", self._name(ending), "master", self._switch)

    def remove(self) -> None:
        for ending in self._endings:
            with contextlib.suppress(subprocess.CalledProcessError):
                self._ip("netns", "delete", self._name(ending))
        with contextlib.suppress(subprocess.CalledProcessError):
            self._ip("link", "delete", self._switch)

    def _name(self, ending: str) -> str:
        """Of the namespace, and of its cable."""
        return f"{self._switch}-{ending}"

    @staticmethod
    def _ip(*arguments: str) -> None:
        subprocess.run([find_program("ip"), *arguments], check=True)
