-- The files that a job keeps, by name; their bytes lie under their digest, once for all who have the same.
create table artefact (
    job integer not null references job (seq),
    name text not null,
    media_type text not null,
    size_bytes integer not null check (size_bytes >= 0),
    digest text not null check (length(digest) = 64),
    attempt text not null,
    number integer not null check (number > 0),
    kept_at integer not null,
    primary key (job, name)
) strict, without rowid;

create index artefact_digest on artefact (digest);

-- The sum over all rows above, so that nobody has to count them.
create table artefact_total (
    singleton integer primary key check (singleton = 1),
    size_bytes integer not null check (size_bytes >= 0)
) strict;

insert into artefact_total (singleton, size_bytes) values (1, 0);
