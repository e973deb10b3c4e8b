-- compatible_from: 21
-- Workers look only at webhooks in use: those that are disabled or deleted leave the indexes of what may be due.

DROP INDEX webhooks_due;
CREATE INDEX webhooks_due ON webhooks (due_at) WHERE due_at IS NOT NULL AND enabled AND deleted_at IS NULL;

-- The webhook is disabled or deleted.
ALTER TABLE webhook_parked ADD COLUMN suspended boolean NOT NULL DEFAULT false;
UPDATE webhook_parked parked SET suspended = true
FROM webhooks webhook
WHERE webhook.organisation_id = parked.organisation_id AND webhook.id = parked.webhook_id
  AND (NOT webhook.enabled OR webhook.deleted_at IS NOT NULL);
DROP INDEX webhook_parked_due;
CREATE INDEX webhook_parked_due ON webhook_parked (next_attempt_at) WHERE NOT suspended;
