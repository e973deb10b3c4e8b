"""Who makes a change, for the audit log."""

from enum import StrEnum

import msgspec


class ActorKind(StrEnum):
    CLI = "cli"
    KEY = "key"
    SYSTEM = "system"
    PAYER = "payer"
    USER = "user"


class Actor(msgspec.Struct, frozen=True):
    """`name` is the operator's user and host, the job, or the id of the API key, the user or the payer's link."""

    kind: ActorKind
    name: str
    # The network address of an API client or of a user. Payers' addresses are not stored: entries can never be deleted.
    address: str | None = None

    def __str__(self) -> str:
        """As it is stored, such as `key:key_06dq2k8v7p3h5n9s4t1w0x2y6z`."""
        return f"{self.kind}:{self.name}"

    @property
    def key_id(self) -> str | None:
        return self.name if self.kind is ActorKind.KEY else None


def person_of(actor: str) -> str | None:
    """The person behind a stored actor, on any host and through sudo; None for jobs, keys and payers."""
    kind, _, name = actor.partition(":")
    if kind == ActorKind.USER:
        return name
    if kind != ActorKind.CLI:
        return None
    _, sudo, invoker = name.partition(" (sudo by ")
    return invoker.removesuffix(")") if sudo else name.partition("@")[0]


def job_actor(job: str) -> Actor:
    return Actor(ActorKind.SYSTEM, job)
