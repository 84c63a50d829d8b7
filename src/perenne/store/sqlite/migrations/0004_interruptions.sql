-- A kind may bound interruptions apart from failures; a job keeps that bound. Jobs of before have none.
alter table job add column max_interruptions integer check (max_interruptions between 1 and 100);
