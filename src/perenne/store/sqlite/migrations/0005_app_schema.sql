-- A place for the number of the application's own migrations that this ledger has seen.
create table app_schema (
    singleton integer primary key check (singleton = 1),
    version integer not null check (version > 0)
) strict;
