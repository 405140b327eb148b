-- Format 1. Any change is a new format and needs a migration.
-- Instants are epoch milliseconds. Names are UTF-8, sorted by bytes. Keys are `bytea`, since a key may
-- contain U+0000, which `text` cannot store.

create table meta (
    one boolean primary key default true check (one),
    format integer not null
);

-- Ids of jobs and groups. Ids of a rolled-back push are not used again.
create sequence ids;
-- Delivery numbers. A claim returns them only after its commit, so none is reused after a crash.
create sequence deliveries;

create table jobs (
    id bigint primary key,
    queue text collate "C" not null,
    kind text collate "C" not null,
    -- Digest of the limit keys, so that it fits an index; empty for none.
    lane bytea not null,
    -- The limit keys as JSON; null for none.
    limits text,
    priority integer not null,
    -- In the order of a job's life: waiting 0, scheduled 1, ready 2, running 3, done 4, dead 5, cancelled 6.
    state smallint not null,
    stop boolean not null,
    counted boolean not null,
    broken boolean not null,
    waits bigint not null,
    delivery bigint not null,
    revision bigint not null,
    attempt bigint not null,
    crashes bigint not null,
    pushed_at bigint not null,
    due bigint not null,
    started_at bigint not null,
    lease_until bigint not null,
    ended_at bigint,
    -- Duration of a lease; null for the default lease of a fire-and-forget job.
    lease bigint,
    -- The unique key that is held until the job starts.
    start_key bytea,
    worker text,
    -- Why the job is dead or cancelled.
    why text,
    -- Ended attempts as JSON.
    history text,
    -- Encoding and expiry of the result as JSON; its bytes are in `result`.
    kept text,
    result bytea,
    spec text not null,
    payload bytea not null
);
-- The lanes, each in order. Claims need no other index.
create index jobs_ready on jobs (queue, kind, lane, priority, due, id) where state = 2;

-- Holders of unique keys (`u`) and client ids (`c`). A lock expires at `until`.
create table keys (
    key bytea primary key,
    job bigint not null,
    until bigint
);

create table groups (
    id bigint primary key,
    size bigint not null,
    ran bigint not null,
    succeeded bigint not null,
    sealed boolean not null,
    lost boolean not null,
    revision bigint not null,
    touched_at bigint not null
);

-- Open dependencies. Jobs and groups share one sequence of ids, so `thing` identifies either.
create table deps (
    job bigint not null,
    place integer not null,
    thing bigint not null,
    -- End 0, success 1.
    needs smallint not null,
    primary key (job, place)
);
create index deps_thing on deps (thing);

-- The usage of each limit key: running deliveries, and the TAT (theoretical arrival time, as in GCRA) of the
-- rate. Every delivery counts, even while its limit is not defined, so that a limit that is defined later has
-- correct counts.
create table buckets (
    key bytea primary key,
    held bigint not null,
    tat bigint not null
);

-- A removed entry stays as a row without a value, to continue its revisions.
create table registry (
    tab smallint not null,
    name text collate "C" not null,
    value text,
    paused boolean not null,
    revision bigint not null,
    expires_at bigint,
    primary key (tab, name)
);
