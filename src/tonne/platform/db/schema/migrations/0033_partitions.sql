-- compatible_from: 33
-- Older releases delete webhook attempts by their place in the file, which is not unique among partitions.

-- Every partition has its own indexes, which are the same in all: new partitions are copies of the default partition,
-- which gets the rows that fit into no other. The partitioned tables have none, because a unique index would have to
-- contain the time, and would then not make positions and ids unique.
-- brief locks: events, webhook_attempts, mails
DO $$
DECLARE
    target record;
    boundary text;
BEGIN
    FOR target IN SELECT * FROM (VALUES ('events', 'sequence'), ('webhook_attempts', 'at'), ('mails', 'created_at'))
                                AS tables (name, key) LOOP
        SELECT substring(pg_get_constraintdef(oid) FROM '''([^'']+)''') INTO STRICT boundary
        FROM pg_constraint WHERE conname = target.name || '_bounds' AND conrelid = target.name::regclass;
        EXECUTE format('ALTER TABLE %I RENAME TO %I', target.name, target.name || '_first');
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING DEFAULTS INCLUDING STORAGE INCLUDING COMPRESSION) '
                       'PARTITION BY RANGE (%I)', target.name, target.name || '_first', target.key);
        EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', target.name || '_default', target.name || '_first');
        EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I', target.name || '_default', target.name || '_bounds');
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (MINVALUE) TO (%L)',
                       target.name, target.name || '_first', boundary);
        EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I DEFAULT', target.name, target.name || '_default');
        EXECUTE format('ALTER TABLE %I DROP CONSTRAINT %I', target.name || '_first', target.name || '_bounds');
    END LOOP;
END
$$;
