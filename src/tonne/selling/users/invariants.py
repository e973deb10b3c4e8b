"""What must hold of settings that two people change together."""

from tonne.platform.db.invariant import Invariant

INVARIANTS = (
    Invariant(
        "a guarded setting has the value that was noted or approved",
        "The bank account or a limit of the service was changed without the two people who approve that.",
        """
        SELECT format('%s is %s instead of %s', setting.name, setting.value,
                      coalesce(known.after ->> 'value', known.details ->> 'applies')) AS "where"
        FROM guarded_settings setting
        CROSS JOIN LATERAL (
            SELECT after, details FROM audit_log
            WHERE audit_log.subject_id = setting.name AND action IN ('setting.noted', 'setting.changed')
            ORDER BY at DESC, id DESC LIMIT 1) known
        WHERE setting.value <> coalesce(known.after ->> 'value', known.details ->> 'applies')
        UNION ALL
        SELECT format('%s was changed to %s at %s without approvals', setting.name, changed.after ->> 'value',
                      changed.at)
        FROM guarded_settings setting
        JOIN audit_log changed ON changed.subject_id = setting.name AND changed.action = 'setting.changed'
        WHERE NOT EXISTS (
            SELECT FROM approvals
            WHERE approvals.kind IN ('bank_iban', 'limit') AND approvals.subject_id = setting.name
              AND approvals.at <= changed.at
            GROUP BY approvals.digest HAVING count(DISTINCT approvals.approved_by) >= 2)
        """,
    ),
)
