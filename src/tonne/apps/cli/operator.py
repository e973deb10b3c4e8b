"""Who runs a command, for the audit log: the command line has no login of its own."""

import os
import pwd
import socket
from collections.abc import Mapping

from tonne.platform.values.context import Actor, ActorKind


def operator(environment: Mapping[str, str]) -> Actor:
    """The user of this process and the host. After sudo, also the user who ran sudo.

    The user comes from the system, not from $USER: that is missing in containers and cron jobs, and anyone can set it.
    """
    user, host = _user_name(os.geteuid()), socket.gethostname()
    invoker = environment.get("SUDO_USER")
    name = f"{user}@{host}"
    return Actor(ActorKind.CLI, f"{name} (sudo by {invoker})" if invoker and invoker != user else name)


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        # Containers may run as a user that has no entry in /etc/passwd.
        return f"uid {uid}"
