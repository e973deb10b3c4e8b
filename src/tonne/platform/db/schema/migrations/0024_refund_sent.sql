-- compatible_from: 21
-- While a worker of an older release runs, it does not set the new column: settle no refund by hand until all are upgraded.

-- refunds ------------------------------------------------------------------------------------------------------

-- When a worker last began to send a refund to the card gateway; null while the gateway cannot have it. Without an
-- answer the refund must not be settled by hand: the gateway may still make it.
ALTER TABLE refunds ADD COLUMN sent_at timestamptz;
UPDATE refunds SET sent_at = created_at WHERE method = 'card' AND state IN ('due', 'pending');
