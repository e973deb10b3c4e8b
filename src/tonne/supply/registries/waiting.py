"""What `tonne doctor` warns of: requests in doubt, and registries that contradict the books."""

from datetime import datetime, timedelta
from functools import partial

from tonne.platform.db.queues import Topic, WaitingCheck
from tonne.platform.settings.settings import Settings
from tonne_verify.serials.spelling import REGISTRY_IDS

# Retirements at a sandbox, or at a server of our own, are none.
_SANDBOX = r"//[^/]*(sandbox|uat)"
_THIS_MACHINE = r"//(localhost|127\.|\[::1\])"
STATEMENT_DAYS = 7


def _addresses(pattern: str, settings: Settings, _: datetime) -> tuple[object, ...]:
    return settings.isometric_api_base, settings.puro_api_base, pattern


def _registry_names(_: Settings, now: datetime) -> tuple[object, ...]:
    """Other names of registries, and the ids that accounts have for them."""
    return now - timedelta(days=STATEMENT_DAYS), list(REGISTRY_IDS), list(REGISTRY_IDS.values())


def _find_addresses(pattern: str, name: str, meaning: str, remedy: str, *, is_broken: bool = False) -> WaitingCheck:
    return WaitingCheck(
        name,
        meaning,
        f"Set TONNE_ISOMETRIC_API_BASE or TONNE_PURO_API_BASE to the registry's own address, and restart.{remedy}",
        """
        SELECT format('%s at %s', account.id, used.address) AS "where"
        FROM registry_accounts account JOIN (VALUES ('isometric', $1), ('puro', $2)) AS used (adapter, address)
             USING (adapter)
        WHERE account.mode = 'live' AND used.address ~* $3 ORDER BY 1
        """,
        partial(_addresses, pattern),
        topic=Topic.REGISTRIES,
        is_broken=is_broken,
    )


WAITING = (
    _find_addresses(
        _THIS_MACHINE,
        "no registry of live credits is on this machine",
        "An account that retires live credits is at a server on this machine, which is no registry: nothing is "
        "retired, but certificates say so.",
        "",
        is_broken=True,
    ),
    _find_addresses(
        _SANDBOX,
        "live credits are retired at the registry itself",
        "An account that retires live credits is at the test environment of its registry: nothing is retired, but "
        "certificates say so.",
        " Use another installation to try a sandbox.",
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
    WaitingCheck(
        "accounts without an API were compared with the books within 7 days",
        "A person retires the live credits of a registry, and nobody has compared its account with the books for a "
        "week. Retirements that are missing here, or there, are not noticed.",
        "Download the list of what is active in the account, and upload it on the page Registries or with "
        "`tonne registry upload`.",
        """
        SELECT format('%s: %s', held.registry,
                      coalesce('not since ' || to_char(account.looked_at, 'YYYY-MM-DD'), 'never')) AS "where"
        FROM (SELECT min(project.registry) AS registry, coalesce(known.id, spelt.name) AS id,
                     min(lot.created_at) AS since
              FROM lots lot JOIN projects project ON project.mode = lot.mode AND project.id = lot.project_id
              CROSS JOIN LATERAL (SELECT upper(regexp_replace(project.registry, '[^[:alnum:]]+', '', 'g')) AS name
                                 ) spelt
              LEFT JOIN unnest($2::text[], $3::text[]) AS known (name, id) ON known.name = spelt.name
              WHERE lot.mode = 'live' AND lot.status = 'held' AND lot.registry_account IS NULL
                AND lot.invalidated_at IS NULL AND lot.serial NOT LIKE 'TEST-%'
                AND (lot.allocated_grams < lot.quantity_grams
                     OR EXISTS (SELECT FROM parcels left_over
                                WHERE left_over.mode = lot.mode AND left_over.lot_id = lot.id
                                  AND left_over.status IN ('open', 'to_retire')))
              GROUP BY 2) held
        LEFT JOIN registry_accounts account
               ON account.id = 'desk-' || left(regexp_replace(lower(held.id), '[^a-z0-9]+', '-', 'g'), 30)
        WHERE coalesce(account.looked_at, held.since) < $1 ORDER BY coalesce(account.looked_at, held.since)
        """,
        _registry_names,
        topic=Topic.REGISTRIES,
    ),
)
