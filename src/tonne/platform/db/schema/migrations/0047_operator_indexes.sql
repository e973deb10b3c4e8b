-- compatible_from: 34
-- transaction: none

-- cards --------------------------------------------------------------------------------------------------------

-- The charges that somebody has to look at, without reading all.
CREATE INDEX CONCURRENTLY IF NOT EXISTS charges_unsettled ON charges (mode, created_at)
    WHERE status IN ('pending', 'mismatched');
