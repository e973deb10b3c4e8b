"""The queue of the transparency log, and what `tonne doctor` warns of."""

from tonne.platform.db.queues import Queue, Topic, WaitingCheck, queue_of
from tonne.supply.transparency.witness_outcomes import WitnessProblem

QUEUES = (
    queue_of(
        "log_statements",
        "log_statements WHERE log_id IS NULL ORDER BY mode, id",
        since="recorded_at",
        due="recorded_at",
    ),
    Queue(
        "failing_witnesses",
        """
        SELECT log.mode, count(*) AS depth, min(witness.failing_since) AS since, min(witness.next_attempt_at) AS due
        FROM log_witnesses witness JOIN logs log ON log.id = witness.log_id
        WHERE witness.failing_since IS NOT NULL AND log.closed_at IS NULL GROUP BY log.mode
        """,
    ),
)
# Those of `WitnessProblem.is_alarm`.
_ALARMS = ", ".join(f"'{problem}'" for problem in WitnessProblem if problem.is_alarm)
WAITING = (
    WaitingCheck(
        "the transparency log is published",
        "Publishing a checkpoint was refused, so that two histories are never signed. New certificates have no proof.",
        "Do what the reason says; `tonne log reopen` is the last resort. docs/transparency-log.md explains it.",
        """
        SELECT format('log %s since %s: %s', origin, to_char(refused_at, 'YYYY-MM-DD HH24:MI'), refusal) AS "where"
        FROM logs WHERE closed_at IS NULL AND refusal IS NOT NULL AND refused_at <= $1 ORDER BY refused_at
        """,
        topic=Topic.RETIREMENTS,
    ),
    WaitingCheck(
        "a checkpoint covers retirements and certificates within five minutes",
        "They have no proof yet: the worker does not append them to the transparency log, or publishes no checkpoint.",
        "Start a worker with `tonne worker`. If one runs, its log says why a statement cannot be composed "
        "(statement_not_composed) or publishing is refused (log_publishing_refused).",
        """
        SELECT format('%s of %s %s, since %s', kind, mode, subject, to_char(recorded_at, 'YYYY-MM-DD HH24:MI'))
               AS "where"
        FROM (SELECT kind, mode, subject, recorded_at FROM log_statements WHERE log_id IS NULL
              UNION ALL
              SELECT logged.kind, logged.mode, logged.subject, logged.recorded_at
              FROM logs log JOIN log_statements logged
                ON logged.log_id = log.id AND logged.position >= log.published_size
              WHERE log.closed_at IS NULL) AS uncovered
        WHERE recorded_at < $1::timestamptz - interval '5 minutes' ORDER BY recorded_at
        """,
        topic=Topic.RETIREMENTS,
    ),
    WaitingCheck(
        "no witness has seen another log",
        "A witness has seen entries that the log does not have, or other ones: the log went back behind a published "
        "checkpoint, or there are two versions of it.",
        "Stop the workers (`tonne hold`), and find out which entries are lost or changed. docs/witnesses.md explains "
        "the problems.",
        f"""
        SELECT format('witness %s of log %s, since %s: %s (%s)', split_part(witness.vkey, '+', 1), log.origin,
                      to_char(witness.failing_since, 'YYYY-MM-DD HH24:MI'), witness.problem, witness.detail) AS "where"
        FROM log_witnesses witness JOIN logs log ON log.id = witness.log_id
        WHERE log.closed_at IS NULL AND witness.problem IN ({_ALARMS}) AND witness.failing_since <= $1
        ORDER BY witness.failing_since
        """,  # noqa: S608 - words of an enum
        topic=Topic.RETIREMENTS,
    ),
    WaitingCheck(
        "witnesses cosign the live log",
        "Checkpoints are published without the cosignature of a witness. Proofs of that time rely on your word alone.",
        "Ask the operator of the witness, or correct TONNE_LOG_WITNESSES. docs/witnesses.md explains the problems.",
        f"""
        SELECT format('witness %s, since %s: %s (%s); its last cosignature: %s', split_part(witness.vkey, '+', 1),
                      to_char(witness.failing_since, 'YYYY-MM-DD HH24:MI'), witness.problem, witness.detail,
                      coalesce(to_char(witness.cosigned_at, 'YYYY-MM-DD HH24:MI'), 'none')) AS "where"
        FROM log_witnesses witness JOIN logs log ON log.id = witness.log_id
        WHERE log.mode = 'live' AND log.closed_at IS NULL AND witness.problem NOT IN ({_ALARMS})
          AND witness.failing_since < $1::timestamptz - interval '1 hour'
        ORDER BY witness.failing_since
        """,  # noqa: S608 - words of an enum
        topic=Topic.RETIREMENTS,
    ),
)
