-- A job may go on when a dependency ends badly, with what came of it: a third word in the check of its policy.
alter table job add column policy text not null default 'block' check (policy in ('block', 'fail', 'continue'));

update job
set policy = on_dependency
where on_dependency <> 'block';

alter table job drop column on_dependency;

alter table job rename column policy to on_dependency;
