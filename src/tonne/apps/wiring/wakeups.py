"""Which work wakes each job, and which work a run of the job may make due for others."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tonne.platform.events.notification import Notifier, WorkKind, collecting_streams
from tonne.platform.jobs.loop import Job, RunOnce
from tonne.platform.values.context import replace


class Wakeups(NamedTuple):
    # Without kinds, the job only polls: its work becomes due by time, or is not urgent.
    wakes_on: frozenset[WorkKind] = frozenset()
    leads_to: frozenset[WorkKind] = frozenset()


def _wakeups(wakes_on: Sequence[WorkKind], *leads_to: WorkKind) -> Wakeups:
    return Wakeups(frozenset(wakes_on), frozenset(leads_to))


_KIND = WorkKind
_CHARGES = (_KIND.LIVE_CHARGES, _KIND.TEST_CHARGES)
_AFTER_CHARGES = (_KIND.EVENTS, _KIND.PAID_ORDERS, _KIND.CARD_PROBLEMS, _KIND.REFUNDS, _KIND.ORDER_MAILS)
_AFTER_REFUNDS = (_KIND.EVENTS, _KIND.REFUNDS, _KIND.CREDIT_NOTES, _KIND.PAID_ORDERS, _KIND.ORDER_MAILS)
_AFTER_ALLOCATION = (_KIND.EVENTS, _KIND.POOLED_UNITS, _KIND.RETIREMENTS, _KIND.CERTIFICATES, _KIND.MAILS)
# A job that is not listed polls, and whatever it does wakes all others.
UNKNOWN = Wakeups(frozenset(), frozenset(WorkKind))
WAKEUPS: Mapping[str, Wakeups] = {
    "price_waiting_orders": _wakeups([], _KIND.EVENTS, _KIND.UNINVOICED_ORDERS, *_CHARGES),
    "charge_live_cards": _wakeups([_KIND.LIVE_CHARGES], *_AFTER_CHARGES),
    "charge_test_cards": _wakeups([_KIND.TEST_CHARGES], *_AFTER_CHARGES),
    "charge_live_invoices": _wakeups([_KIND.LIVE_CHARGES], *_AFTER_CHARGES, _KIND.INVOICES, _KIND.CREDIT_NOTES),
    "charge_test_invoices": _wakeups([_KIND.TEST_CHARGES], *_AFTER_CHARGES, _KIND.INVOICES, _KIND.CREDIT_NOTES),
    "poll_gateways": _wakeups([], _KIND.REFUNDS),
    "check_payments": _wakeups([_KIND.REFUNDS], *_AFTER_REFUNDS),
    "make_refunds": _wakeups([_KIND.REFUNDS], *_AFTER_REFUNDS),
    "settle_bank_refunds": _wakeups([_KIND.REFUNDS], *_AFTER_REFUNDS),
    "mail_orders": _wakeups([_KIND.ORDER_MAILS], _KIND.MAILS),
    "remove_closed_cards": _wakeups([]),
    "issue_invoices": _wakeups(
        [_KIND.UNINVOICED_ORDERS], _KIND.EVENTS, _KIND.PAID_ORDERS, _KIND.BILLING_GROUPS, _KIND.INVOICES, _KIND.MAILS
    ),
    "issue_consolidated_invoices": _wakeups(
        [_KIND.BILLING_GROUPS], _KIND.EVENTS, _KIND.INVOICES, _KIND.MAILS, *_CHARGES
    ),
    "issue_documents": _wakeups([_KIND.PAID_ORDERS], _KIND.EVENTS, _KIND.INVOICES, _KIND.CREDIT_NOTES),
    "render_documents": _wakeups([_KIND.INVOICES, _KIND.CREDIT_NOTES], _KIND.INVOICES),
    "send_einvoices": _wakeups([]),
    "follow_up_invoices": _wakeups([_KIND.INVOICES], _KIND.EVENTS, _KIND.CREDIT_NOTES, _KIND.REFUNDS, _KIND.MAILS),
    "mail_credit_notes": _wakeups([_KIND.CREDIT_NOTES], _KIND.MAILS),
    "allocate_orders": _wakeups([_KIND.PAID_ORDERS], *_AFTER_ALLOCATION),
    "close_checkouts": _wakeups([], _KIND.EVENTS, _KIND.MAILS),
    "close_units": _wakeups([_KIND.POOLED_UNITS], _KIND.RETIREMENTS),
    "retire_units": _wakeups([_KIND.RETIREMENTS], _KIND.PAID_ORDERS, _KIND.CERTIFICATES),
    "check_registries": _wakeups([]),
    "resupply_orders": _wakeups([], *_AFTER_ALLOCATION),
    "release_holds": _wakeups([]),
    "apply_price_changes": _wakeups([]),
    "append_leaves": _wakeups([_KIND.CERTIFICATES]),
    "publish_checkpoints": _wakeups([]),
    "ask_witnesses": _wakeups([]),
    "deliver_webhooks": _wakeups([_KIND.EVENTS]),
    "mail_certificates": _wakeups([_KIND.CERTIFICATES], _KIND.MAILS),
    "mail_changed_certificates": _wakeups([_KIND.CERTIFICATES], _KIND.MAILS),
    "mail_card_problems": _wakeups([_KIND.CARD_PROBLEMS], _KIND.MAILS),
    "update_cards": _wakeups([]),
    "mail_password_links": _wakeups([], _KIND.MAILS),
    "mail_order_links": _wakeups([], _KIND.MAILS),
    "send_mails": _wakeups([_KIND.MAILS]),
    "make_partitions": _wakeups([]),
    "note_settings": _wakeups([]),
    "post_entries": _wakeups([]),
    "write_digests": _wakeups([]),
    "fold_order_totals": _wakeups([]),
    "fold_estimate_counts": _wakeups([]),
    "count_metadata": _wakeups([]),
    "check_vat_ids": _wakeups([]),
    "fold_link_counts": _wakeups([]),
    "note_supply": _wakeups([]),
    "prune_requests": _wakeups([]),
    "prune_responses": _wakeups([]),
    "make_audit_packs": _wakeups([]),
    "import_uploads": _wakeups([], _KIND.EVENTS),
    "prune_quotes": _wakeups([]),
    "prune_sessions": _wakeups([]),
    "prune_traces": _wakeups([]),
    "remove_partitions": _wakeups([]),
}


def connect_jobs(jobs: Sequence[Job], notifier: Notifier) -> list[Job]:
    """The jobs, woken by their kinds of work, and notifying of the work that they make due."""
    connected = []
    for job in jobs:
        wakeups = WAKEUPS.get(job.name, UNKNOWN)
        run_once = _notify_after(job.run_once, notifier, wakeups.leads_to) if wakeups.leads_to else job.run_once
        connected.append(replace(job, run_once=run_once, kinds=wakeups.wakes_on))
    return connected


def _notify_after(run_once: RunOnce, notifier: Notifier, kinds: frozenset[WorkKind]) -> RunOnce:
    async def run() -> bool:
        with collecting_streams() as streams:
            worked = await run_once()
        if worked:
            notifier.notify(*kinds, streams=streams)
        return worked

    return run
