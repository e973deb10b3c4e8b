"""How electronic invoices leave, other than by mail: the interface of a network, and a folder as the simplest one."""

import asyncio
from enum import StrEnum
from pathlib import Path
from typing import Protocol

import msgspec

from tonne.platform.settings.settings import Settings


class EInvoice(msgspec.Struct, frozen=True):
    """`id` is that of the document: a network must deliver it once, however often it gets it."""

    id: str
    number: str
    format: str
    receiver: str
    content: bytes


class NetworkOutcome(StrEnum):
    ACCEPTED = "accepted"
    REFUSED = "refused"
    # Handed over: whether it arrives is known later.
    UNKNOWN = "unknown"


class NetworkAnswer(msgspec.Struct, frozen=True):
    outcome: NetworkOutcome
    reason: str | None = None


class EInvoiceNetwork(Protocol):
    async def send(self, invoice: EInvoice) -> NetworkAnswer: ...

    async def find(self, invoice: EInvoice) -> NetworkAnswer | None:
        """What became of one that was perhaps sent. None: the network does not know it, so that it can be sent."""


class _Manifest(msgspec.Struct, frozen=True):
    id: str
    number: str
    format: str
    receiver: str
    file: str


class FolderNetwork(msgspec.Struct, frozen=True):
    """Writes each file into a folder, then a manifest: another program sends it, and a person records the answer."""

    folder: Path

    async def send(self, invoice: EInvoice) -> NetworkAnswer:
        await asyncio.to_thread(self._write, invoice)
        return NetworkAnswer(NetworkOutcome.UNKNOWN)

    async def find(self, invoice: EInvoice) -> NetworkAnswer | None:
        is_there = await asyncio.to_thread((self.folder / f"{invoice.number}.json").exists)
        return NetworkAnswer(NetworkOutcome.UNKNOWN) if is_there else None

    def _write(self, invoice: EInvoice) -> None:
        name = f"{invoice.number}.xml"
        manifest = _Manifest(invoice.id, invoice.number, invoice.format, invoice.receiver, name)
        for path, content in (
            (self.folder / name, invoice.content),
            (self.folder / f"{invoice.number}.json", msgspec.json.format(msgspec.json.encode(manifest))),
        ):
            part = path.with_suffix(".part")
            part.write_bytes(content)
            # A program that reads the folder never sees half a file.
            part.replace(path)


def network_of(settings: Settings) -> EInvoiceNetwork | None:
    """None: mails have the files attached."""
    return FolderNetwork(Path(settings.einvoice_folder)) if settings.einvoice_network == "folder" else None
