"""What `tonne doctor` warns of: requests in doubt, and registries that contradict the books."""

from datetime import datetime

from tonne.platform.db.queues import Topic, WaitingCheck
from tonne.platform.settings.settings import Settings

# Retirements at a sandbox, or at a server of our own, are none.
_ELSEWHERE = r"//[^/]*(sandbox|uat|localhost|127\.|\[::1\])"


def _addresses(settings: Settings, _: datetime) -> tuple[object, ...]:
    return settings.isometric_api_base, settings.puro_api_base, _ELSEWHERE


WAITING = (
    WaitingCheck(
        "live credits are retired at the registry itself",
        "An account that retires live credits is at the test environment of its registry: nothing is retired, but "
        "certificates say so.",
        "Set TONNE_ISOMETRIC_API_BASE or TONNE_PURO_API_BASE to the registry's own address, and restart. Use another "
        "installation to try a sandbox.",
        """
        SELECT format('%s at %s', account.id, used.address) AS "where"
        FROM registry_accounts account JOIN (VALUES ('isometric', $1), ('puro', $2)) AS used (adapter, address)
             USING (adapter)
        WHERE account.mode = 'live' AND used.address ~* $3 ORDER BY 1
        """,
        _addresses,
        topic=Topic.REGISTRIES,
    ),
    WaitingCheck(
        "registries serve the requests to retire live credits",
        "Several requests in succession had no answer, so nothing is asked: the orders wait.",
        "Tonne looks every minute whether the registry answers again. If it does not accept the credentials, make new "
        "ones there, set them (TONNE_ISOMETRIC_…, TONNE_PURO_…) and restart.",
        """
        SELECT format('%s, since %s: %s', id, to_char(stopped_at, 'YYYY-MM-DD HH24:MI'),
                      coalesce(problem, 'no reason')) AS "where"
        FROM registry_accounts WHERE mode = 'live' AND stopped_at <= $1 ORDER BY id
        """,
        topic=Topic.REGISTRIES,
    ),
    WaitingCheck(
        "credentials of registries are valid for another 30 days",
        "The credentials of an account at a registry expire. After that, nothing is retired without a person.",
        "Make new credentials at the registry, set them (TONNE_ISOMETRIC_…, TONNE_PURO_…) and restart.",
        """
        SELECT format('%s: until %s', id, expires_on) AS "where" FROM registry_accounts
        WHERE mode = 'live' AND expires_on <= ($1::timestamptz + interval '30 days')::date ORDER BY id
        """,
        topic=Topic.REGISTRIES,
    ),
    WaitingCheck(
        "registries answer within 15 minutes whether live credits are retired",
        "A registry was asked to retire credits, and it is not known whether it has.",
        "Nothing has to be done: Tonne looks the request up again, and never asks twice for the same credits. If it "
        "stays so, look for the reference at the registry; the page Registries and `tonne registry requests` say what "
        "is known.",
        """
        SELECT format('request %s (%s) to %s: %s units of lot %s, asked at %s%s', id, reference, registry_account,
                      unit_count, lot_id, to_char(sent_at, 'YYYY-MM-DD HH24:MI'),
                      coalesce('. ' || problem, '')) AS "where"
        FROM registry_instructions
        WHERE mode = 'live' AND state IN ('asked', 'pending') AND sent_at < $1::timestamptz - interval '15 minutes'
        ORDER BY sent_at
        """,
        topic=Topic.REGISTRIES,
    ),
    WaitingCheck(
        "no registry contradicts the books of live credits",
        "A registry shows other units than the books. Nothing is allocated from the lots concerned.",
        "Compare the lot with the account at the registry. Import what is missing here, correct or invalidate the lot "
        "with `tonne lot`, or settle the difference on the page Registries or with `tonne registry settle`.",
        """
        SELECT format('%s at %s: %s of %s units of %s, since %s', id, registry_account, cause, units,
                      coalesce('lot ' || lot_id, 'holding ' || holding_id),
                      to_char(confirmed_at, 'YYYY-MM-DD HH24:MI')) AS "where"
        FROM registry_drifts WHERE mode = 'live' AND closed_at IS NULL AND confirmed_at <= $1 ORDER BY confirmed_at
        """,
        topic=Topic.REGISTRIES,
    ),
)
