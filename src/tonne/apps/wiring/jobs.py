"""All jobs of the worker."""

from tonne.apps.wiring.parts import Parts
from tonne.apps.wiring.wakeups import connect_jobs
from tonne.channels.checkout.link_counts.fold_link_counts import FoldLinkCounts
from tonne.platform.jobs.loop import Job, throttled
from tonne.selling.catalogue.prices.apply_price_changes import ApplyPriceChanges
from tonne.selling.estimates.fold_counts import FoldEstimateCounts
from tonne.selling.orders.quotes.prune_quotes import PruneQuotes
from tonne.selling.orders.totals.metadata_totals import CountMetadata
from tonne.supply.certificates.proofs.statement_source import read_stated_rows
from tonne.supply.stock.note_supply import NoteSupply
from tonne.supply.transparency.append_leaves import AppendLeaves
from tonne.supply.transparency.log_keys import LogKeys
from tonne.supply.transparency.publish_checkpoints import PublishCheckpoints

RETENTION_EVERY_S = 300.0
# Totals are exact before their deltas are folded, too.
FOLD_EVERY_S = 10.0
# Closing checkouts and mailing certificates is not urgent: not on every notification.
CHECKOUTS_EVERY_S = 2.0
# A checkpoint covers what happened within a minute.
LOG_EVERY_S = 2.0
# Refunds are not urgent either.
REFUNDS_EVERY_S = 2.0


def all_jobs(parts: Parts) -> list[Job]:
    deliver = parts.deliverer
    price_changes = ApplyPriceChanges(parts.database, parts.clock)
    append_leaves = AppendLeaves(parts.database, parts.clock, parts.settings, read_stated_rows)
    publish = PublishCheckpoints(
        parts.database, parts.clock, parts.settings, LogKeys(parts.signing_keys), parts.witnesses.cosign
    )
    jobs = [
        Job("price_waiting_orders", parts.price_waiting.run_once),
        *(Job(f"charge_{mode}_cards", charge.run_once, charge.drain) for mode, charge in parts.charge_cards.items()),
        *(Job(name, run) for name, run in parts.invoice_charge_jobs.items()),
        *(Job(name, throttled(run, REFUNDS_EVERY_S)) for name, run in parts.refund_jobs.items()),
        Job("mail_orders", parts.mail_orders.run_once),
        Job("remove_closed_cards", throttled(parts.remove_closed_cards.run_once, CHECKOUTS_EVERY_S)),
        Job("issue_invoices", parts.issue_invoices.run_once),
        Job("issue_consolidated_invoices", parts.issue_consolidated_invoices.run_once),
        Job("follow_up_invoices", parts.follow_up_invoices.run_once),
        Job("mail_credit_notes", parts.mail_credit_notes.run_once),
        Job("allocate_orders", parts.allocate_orders.run_once),
        Job("close_checkouts", throttled(parts.close_checkouts.run_once, CHECKOUTS_EVERY_S)),
        Job("close_units", parts.close_units.run_once),
        Job("resupply_orders", throttled(parts.resupply_orders.run_once, CHECKOUTS_EVERY_S)),
        Job("release_holds", throttled(parts.release_holds.run_once, CHECKOUTS_EVERY_S)),
        Job("apply_price_changes", throttled(price_changes.run_once, CHECKOUTS_EVERY_S)),
        Job("append_leaves", throttled(append_leaves.run_once, LOG_EVERY_S)),
        Job("publish_checkpoints", throttled(publish.run_once, LOG_EVERY_S)),
        Job("ask_witnesses", throttled(parts.witnesses.run_once, LOG_EVERY_S)),
        Job("deliver_webhooks", deliver.run_once, deliver.drain, wake=deliver.more_due, expect=deliver.expect),
        Job("mail_certificates", throttled(parts.mail_certificates.run_once, CHECKOUTS_EVERY_S)),
        Job("mail_changed_certificates", throttled(parts.mail_changed_certificates.run_once, CHECKOUTS_EVERY_S)),
        Job("mail_card_problems", parts.mail_card_problems.run_once),
        Job("update_cards", throttled(parts.update_card.run_once, CHECKOUTS_EVERY_S)),
        Job("send_mails", parts.mails.run_once),
        *(Job(name, throttled(run, RETENTION_EVERY_S)) for name, run in parts.retention_jobs.items()),
        Job("fold_order_totals", throttled(parts.fold_totals.run_once, FOLD_EVERY_S)),
        Job("fold_estimate_counts", throttled(FoldEstimateCounts(parts.database).run_once, FOLD_EVERY_S)),
        Job("count_metadata", throttled(CountMetadata(parts.database).run_once, CHECKOUTS_EVERY_S)),
        Job("fold_link_counts", throttled(FoldLinkCounts(parts.database).run_once, FOLD_EVERY_S)),
        Job("note_supply", throttled(NoteSupply(parts.database, parts.clock).run_once, RETENTION_EVERY_S)),
        Job("make_audit_packs", throttled(parts.make_audit_packs.run_once, CHECKOUTS_EVERY_S)),
        Job("prune_quotes", throttled(PruneQuotes(parts.database, parts.clock).run_once, RETENTION_EVERY_S)),
        Job("prune_sessions", throttled(parts.prune_sessions.run_once, RETENTION_EVERY_S)),
    ]
    return connect_jobs(jobs, parts.notifier)
