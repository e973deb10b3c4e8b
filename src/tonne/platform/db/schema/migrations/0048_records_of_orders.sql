-- compatible_from: 34
-- transaction: none
-- What belongs to one order, for its page, without reading everything of its account.

-- events -------------------------------------------------------------------------------------------------------

-- New partitions are copies of the default partition.
CREATE INDEX CONCURRENTLY IF NOT EXISTS events_first_by_subject ON events_first (subject_id);
CREATE INDEX CONCURRENTLY IF NOT EXISTS events_default_by_subject ON events_default (subject_id);

-- cards --------------------------------------------------------------------------------------------------------

CREATE INDEX CONCURRENTLY IF NOT EXISTS charges_of_order ON charges (order_id);
