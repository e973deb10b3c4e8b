-- compatible_from: 1
ALTER TABLE webhooks
    -- Where the next round of probes continues, while no account's event is accepted; 0 starts again at the cursor.
    ADD COLUMN probe_after bigint,
    -- An event ahead of the cursor that the receiver accepted as a probe: a request that should succeed.
    ADD COLUMN accepted_probe bigint;
