"""All jobs of the worker."""

from typing import ClassVar, Protocol

from tonne.apps.privacy.retention import jobs as retention
from tonne.apps.wiring.parts import Parts
from tonne.apps.wiring.wakeups import connect_jobs
from tonne.channels.checkout.link_counts.count_store import FoldLinkCounts
from tonne.money.accounting.books.close_month import WriteDigests
from tonne.money.accounting.books.post_entries import PostEntries
from tonne.money.refunds import jobs as refunds
from tonne.platform.jobs.loop import Job, RunOnce, throttled
from tonne.selling.catalogue.prices.apply_price_changes import ApplyPriceChanges
from tonne.selling.estimates.fold_counts import FoldEstimateCounts
from tonne.selling.orders.quotes.prune_quotes import PruneQuotes
from tonne.selling.orders.totals.metadata_totals import CountMetadata
from tonne.selling.users.guarded_settings import NoteSettings
from tonne.supply.certificates.proofs.statement_source import read_stated_rows
from tonne.supply.stock.note_supply import NoteSupply
from tonne.supply.transparency.append_leaves import AppendLeaves
from tonne.supply.transparency.log_keys import LogKeys
from tonne.supply.transparency.publish_checkpoints import PublishCheckpoints


class ThrottledJob(Protocol):
    """A job that is not urgent: it does not look for work on every notification."""

    EVERY_S: ClassVar[int]

    async def run_once(self) -> bool: ...


def _throttled(name: str, job: ThrottledJob) -> Job:
    return _every(job.EVERY_S, name, job.run_once)


def _every(seconds: float, name: str, run_once: RunOnce) -> Job:
    return Job(name, throttled(run_once, seconds), is_throttled=True)


def all_jobs(parts: Parts) -> list[Job]:
    deliver, mails = parts.deliverer, parts.mails
    price_changes = ApplyPriceChanges(parts.database, parts.clock)
    append_leaves = AppendLeaves(parts.database, parts.clock, parts.settings, read_stated_rows)
    publish = PublishCheckpoints(
        parts.database, parts.clock, parts.settings, LogKeys(parts.signing_keys), parts.witnesses.cosign
    )
    jobs = [
        Job("price_waiting_orders", parts.price_waiting.run_once),
        *(Job(f"charge_{mode}_cards", charge.run_once, charge.drain) for mode, charge in parts.charge_cards.items()),
        *(Job(name, run) for name, run in parts.invoice_charge_jobs.items()),
        *(_every(refunds.EVERY_S, name, run) for name, run in parts.refund_jobs.items()),
        Job("mail_orders", parts.mail_orders.run_once),
        _throttled("import_uploads", parts.import_uploads),
        _throttled("remove_closed_cards", parts.remove_closed_cards),
        Job("issue_invoices", parts.issue_invoices.run_once),
        Job("issue_consolidated_invoices", parts.issue_consolidated_invoices.run_once),
        _throttled("issue_documents", parts.issue_documents),
        Job("render_documents", parts.render_documents.run_once),
        _throttled("send_einvoices", parts.send_einvoices),
        Job("follow_up_invoices", parts.follow_up_invoices.run_once),
        Job("mail_credit_notes", parts.mail_credit_notes.run_once),
        Job("allocate_orders", parts.allocate_orders.run_once),
        _throttled("close_checkouts", parts.close_checkouts),
        Job("retire_units", parts.retire_units.run_once),
        _throttled("check_registries", parts.check_registries),
        Job("close_units", parts.close_units.run_once),
        _throttled("resupply_orders", parts.resupply_orders),
        _throttled("release_holds", parts.release_holds),
        _throttled("apply_price_changes", price_changes),
        _throttled("append_leaves", append_leaves),
        _throttled("publish_checkpoints", publish),
        _throttled("ask_witnesses", parts.witnesses),
        Job("deliver_webhooks", deliver.run_once, deliver.drain, wake=deliver.more_due, expect=deliver.expect),
        _throttled("mail_certificates", parts.mail_certificates),
        _throttled("mail_changed_certificates", parts.mail_changed_certificates),
        Job("mail_card_problems", parts.mail_card_problems.run_once),
        _throttled("update_cards", parts.update_card),
        Job("mail_password_links", parts.mail_password_links.run_once),
        Job("mail_order_links", parts.mail_order_links.run_once),
        Job("send_mails", mails.run_once, mails.drain, wake=mails.wake, expect=mails.expect),
        *(_every(retention.EVERY_S, name, run) for name, run in parts.retention_jobs.items()),
        _throttled("note_settings", NoteSettings(parts.database, parts.clock, parts.settings)),
        _throttled("post_entries", PostEntries(parts.database, parts.clock, parts.settings)),
        _throttled("write_digests", WriteDigests(parts.database, parts.clock)),
        _throttled("fold_order_totals", parts.fold_totals),
        _throttled("fold_estimate_counts", FoldEstimateCounts(parts.database)),
        _throttled("count_metadata", CountMetadata(parts.database)),
        _throttled("fold_link_counts", FoldLinkCounts(parts.database)),
        _throttled("note_supply", NoteSupply(parts.database, parts.clock)),
        _throttled("make_audit_packs", parts.make_audit_packs),
        _throttled("check_vat_ids", parts.check_vat_ids),
        _throttled("prune_quotes", PruneQuotes(parts.database, parts.clock)),
        _throttled("prune_sessions", parts.prune_sessions),
    ]
    return connect_jobs(jobs, parts.notifier)
