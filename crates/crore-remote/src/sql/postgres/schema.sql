-- Format 1. A change of any of this is a new format, with a step that leads to it.
-- Instants are epoch milliseconds. Names are UTF-8 in byte order; keys are bytes, since a key may
-- hold what a text of PostgreSQL may not.

create table meta (
    one boolean primary key default true check (one),
    format integer not null
);

-- Jobs and groups. A number that a rolled-back push took is not used again.
create sequence ids;
-- Deliveries. Claims wait for their commit, so a crash cannot bring a number back.
create sequence deliveries;

create table jobs (
    id bigint primary key,
    queue text collate "C" not null,
    kind text collate "C" not null,
    -- Which limit keys: a digest, so that it fits an index; empty for none.
    lane bytea not null,
    -- The limit keys as JSON; null for none.
    limits text,
    priority integer not null,
    -- In the order of a job's life: waiting 0, scheduled 1, ready 2, running 3, done 4, dead 5,
    -- cancelled 6.
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
    -- How long a lease lasts; null for the hidden one of a job that is fire and forget.
    lease bigint,
    -- The unique key that the start of the job releases.
    start_key bytea,
    worker text,
    why text,
    history text,
    kept text,
    result bytea,
    spec text not null,
    payload bytea not null
);
-- The lanes, each in order. Nothing else of a job is looked up while it waits to be claimed.
create index jobs_ready on jobs (queue, kind, lane, priority, due, id) where state = 2;

-- Who has which unique key (`u`) or client id (`c`). `until` ends a lock by the clock alone.
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

-- What is still waited for. Jobs and groups share their numbers, so `thing` names either.
create table deps (
    job bigint not null,
    place integer not null,
    thing bigint not null,
    -- The end 0, success 1.
    needs smallint not null,
    primary key (job, place)
);
create index deps_thing on deps (thing);

-- How much of each limit is in use at each value: deliveries that run, and how far the rate is used
-- up. Every delivery counts, also while its limit is not defined, so that one which is defined later
-- knows what runs.
create table buckets (
    key bytea primary key,
    held bigint not null,
    tat bigint not null
);

-- A removed entry stays as a row without a value, so that its revisions go on.
create table registry (
    tab smallint not null,
    name text collate "C" not null,
    value text,
    paused boolean not null,
    revision bigint not null,
    expires_at bigint,
    primary key (tab, name)
);
