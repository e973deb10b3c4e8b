"""The queues of mails, and what `tonne doctor` warns of."""

from tonne.platform.db.queues import Topic, WaitingCheck, queue_of
from tonne.platform.documents.mail.outbox import AWAY

# Mails have no mode.
_NO_MODE = "any"

QUEUES = (
    queue_of(
        "mails",
        "mails WHERE sent_at IS NULL AND next_attempt_at IS NOT NULL ORDER BY urgency, next_attempt_at",
        mode=_NO_MODE,
    ),
    # For the operator: they were refused for good.
    queue_of(
        "failed_mails",
        """
        mails WHERE sent_at IS NULL AND next_attempt_at IS NULL AND held_reason IS NULL AND discarded_at IS NULL
        """,
        due=None,
        mode=_NO_MODE,
    ),
    # They wait for nobody: test mode sends no mail to strangers.
    queue_of("held_mails", "mails WHERE held_reason IS NOT NULL", due=None, mode=_NO_MODE),
)


WAITING = (
    WaitingCheck(
        "the mail server is reached within ten minutes",
        "Workers cannot connect to the mail server, or it refuses their login. They try again every few seconds, and "
        "send all mails once they can.",
        "Check TONNE_SMTP_URL and the mail server. `tonne check` connects and logs in.",
        f"""
        SELECT format('mail %s of organisation %s: %s', id, organisation_id, last_error) AS "where"
        FROM mails WHERE sent_at IS NULL AND next_attempt_at IS NOT NULL
          AND created_at < $1::timestamptz - interval '10 minutes' AND starts_with(last_error, '{AWAY}')
        ORDER BY created_at
        """,  # noqa: S608 - our own words
        topic=Topic.MAILS,
    ),
    WaitingCheck(
        "mails are sent within six hours",
        "The mail server is not reachable or refuses mails for now. They are tried again for two days.",
        "Check TONNE_SMTP_URL and the mail server. `tonne mail show` shows the last error of one.",
        """
        SELECT format('mail %s of organisation %s, %s attempts: %s', id, organisation_id, attempts, last_error)
               AS "where"
        FROM mails WHERE sent_at IS NULL AND next_attempt_at IS NOT NULL
          AND created_at < $1::timestamptz - interval '6 hours'
        ORDER BY created_at
        """,
        topic=Topic.MAILS,
    ),
    WaitingCheck(
        "no mail was given up",
        "A mail was refused for good, or too often. Nobody tries again.",
        "Correct the cause, then `tonne mail retry`; or `tonne mail discard`, if nobody needs the mail.",
        """
        SELECT format('mail %s of organisation %s: %s', id, organisation_id, last_error) AS "where"
        FROM mails WHERE sent_at IS NULL AND next_attempt_at IS NULL AND held_reason IS NULL AND discarded_at IS NULL
          AND $1::timestamptz IS NOT NULL
        ORDER BY created_at
        """,
        topic=Topic.MAILS,
    ),
)
