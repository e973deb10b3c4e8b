-- compatible_from: 27
-- events, webhook_attempts and mails become partitioned by month, in three files. The existing table becomes the first
-- partition, without a scan under a lock: a constraint says that no row is beyond the end of that partition. This file
-- adds it, the next one validates it.

-- The first partition ends with the next month: rows are added to the table until it is a partition.
-- brief locks: events, webhook_attempts, mails
DO $$
DECLARE
    boundary timestamptz := date_trunc('month', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' + interval '2 months';
BEGIN
    EXECUTE format('ALTER TABLE events ADD CONSTRAINT events_bounds CHECK (sequence < %L) NOT VALID', boundary);
    EXECUTE format('ALTER TABLE webhook_attempts ADD CONSTRAINT webhook_attempts_bounds CHECK (at < %L) NOT VALID', boundary);
    EXECUTE format('ALTER TABLE mails ADD CONSTRAINT mails_bounds CHECK (created_at < %L) NOT VALID', boundary);
END
$$;
