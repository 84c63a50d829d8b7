-- An index of the waits for another attempt by which a clock that was set back is noticed.
create index job_backoff on job (updated_at)
    where state in ('QUEUED', 'RETRY_WAIT') and due_at > 0 and number > 0;
