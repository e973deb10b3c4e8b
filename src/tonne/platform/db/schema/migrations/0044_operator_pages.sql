-- compatible_from: 34

-- retirements --------------------------------------------------------------------------------------------------

-- How much of each project was sold in total, noted once a day: the difference of two days is what was sold in between.
CREATE TABLE supply_days (
    mode        mode NOT NULL,
    day         date NOT NULL,
    project_id  text NOT NULL,
    sold_grams  bigint NOT NULL CHECK (sold_grams >= 0),
    PRIMARY KEY (mode, day, project_id)
);

-- backoffice ---------------------------------------------------------------------------------------------------

-- The results of complete runs of `tonne doctor`. `findings` are the checks that were not ok, without the objects.
CREATE TABLE doctor_runs (
    id           text PRIMARY KEY,
    finished_at  timestamptz NOT NULL,
    actor        text NOT NULL,
    -- The run was limited to changes since this time.
    since        timestamptz,
    status       text NOT NULL CHECK (status IN ('ok', 'warning', 'broken')),
    checks       integer NOT NULL CHECK (checks > 0),
    findings     jsonb NOT NULL
);
CREATE INDEX doctor_runs_by_time ON doctor_runs (finished_at);

-- worker -------------------------------------------------------------------------------------------------------

-- What each running worker last reported about its jobs.
CREATE TABLE worker_reports (
    worker       text PRIMARY KEY,
    started_at   timestamptz NOT NULL,
    reported_at  timestamptz NOT NULL,
    jobs         jsonb NOT NULL
) WITH (fillfactor = 50);
