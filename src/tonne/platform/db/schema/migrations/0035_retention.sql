-- compatible_from: 34

-- events -------------------------------------------------------------------------------------------------------

-- Events up to this position were removed, or are about to be: nothing reads them any more. The sequence is that of the
-- last one.
ALTER TABLE event_streams
    ADD COLUMN floor_position bigint NOT NULL DEFAULT 0,
    ADD COLUMN floor_sequence timestamptz;

-- retention ----------------------------------------------------------------------------------------------------

-- Partitions that were dropped. `file_name` is that of their archive, null if there is none.
CREATE TABLE removed_partitions (
    name        text PRIMARY KEY,
    table_name  text NOT NULL,
    starts_at   timestamptz,
    ends_at     timestamptz NOT NULL,
    row_count   bigint NOT NULL,
    removed_at  timestamptz NOT NULL,
    removed_by  text NOT NULL,
    file_name   text,
    byte_count  bigint,
    sha256      text,
    CHECK (num_nonnulls(file_name, byte_count, sha256) IN (0, 3))
);
