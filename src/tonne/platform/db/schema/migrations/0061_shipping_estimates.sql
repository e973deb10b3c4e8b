-- compatible_from: 34
-- transaction: none

-- estimates ----------------------------------------------------------------------------------------------------

-- For the list of an account's shipments, newest first.
CREATE INDEX CONCURRENTLY IF NOT EXISTS estimates_of_shipments ON estimates (account_id, created_at, id)
    INCLUDE (is_actual) WHERE kind IN ('shipping', 'shipping/multi-leg');
