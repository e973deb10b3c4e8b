-- compatible_from: 27

-- http ---------------------------------------------------------------------------------------------------------

-- Token buckets of clients, as all api processes together have used them. Not logged: after a crash or a failover every
-- client has a full bucket again, and no write waits for the disk. Rows of full buckets are deleted.
CREATE UNLOGGED TABLE rate_limits (
    name        text NOT NULL,
    -- A hash: the table contains no addresses of clients.
    client      bigint NOT NULL,
    level       double precision NOT NULL,
    capacity    double precision NOT NULL CHECK (capacity > 0),
    per_second  double precision NOT NULL CHECK (per_second > 0),
    updated_at  timestamptz NOT NULL,
    PRIMARY KEY (name, client)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.05);
