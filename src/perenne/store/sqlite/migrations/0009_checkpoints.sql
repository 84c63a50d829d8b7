-- The last checkpoint of each job that has one; without a record it lies in a file, whose digest stands here.
create table checkpoint (
    job integer primary key references job (seq),
    attempt text not null,
    number integer not null check (number > 0),
    generation integer not null check (generation > 0),
    sequences integer not null check (sequences >= 0),
    size_bytes integer not null check (size_bytes > 0),
    digest text not null check (length(digest) = 64),
    record blob,
    saved_at integer not null
) strict;
