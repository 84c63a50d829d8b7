-- Enquete.sqlite, schema V20: the tables and columns that an analysis reads and writes, named as the reference
-- program names them, so that one file serves both. Tables of its other modules are not made here.

create table metadata (
    key text primary key,
    value text not null
);

create table investigation (
    id text primary key check (length(id) = 36),
    name text not null check (length(trim(name)) > 0),
    root_path text not null,
    created_at text not null check (length(created_at) = 20),
    updated_at text not null check (length(updated_at) = 20)
);

create table types_preuve (
    id integer primary key,
    code text not null unique,
    label text not null,
    description text
);

insert into types_preuve (id, code, label)
values
    (1, 'screenshot', 'Screenshot'),
    (2, 'photo', 'Photograph'),
    (3, 'video', 'Video'),
    (4, 'document', 'Document'),
    (5, 'email', 'Mail'),
    (6, 'archive', 'Archive'),
    (7, 'audio', 'Sound'),
    (8, 'text', 'Text'),
    (9, 'other', 'Other');

create table types_entite (
    id integer primary key,
    code text not null unique,
    label text not null,
    description text
);

insert into types_entite (id, code, label)
values
    (1, 'email_address', 'Mail address'),
    (2, 'bank_account', 'Bank account'),
    (3, 'facebook_account', 'Facebook account'),
    (4, 'instagram_account', 'Instagram account'),
    (5, 'identity_document', 'Identity document'),
    (6, 'iban', 'IBAN'),
    (7, 'person', 'Person'),
    (8, 'pseudonym', 'Pseudonym'),
    (9, 'phone_number', 'Phone number'),
    (10, 'website', 'Website'),
    (11, 'domain_name', 'Domain name'),
    (12, 'ip_address', 'IP address'),
    (13, 'organization', 'Organisation'),
    (14, 'other', 'Other');

create table preuves (
    id text primary key check (length(id) = 36),
    name text not null check (length(trim(name)) > 0),
    relative_path text not null unique check (length(trim(relative_path)) > 0),
    type_id integer not null references types_preuve (id) on update cascade on delete restrict,
    size_bytes integer not null check (typeof(size_bytes) = 'integer' and size_bytes >= 0),
    sha256 text not null check (length(sha256) = 64 and sha256 not glob '*[^0-9a-f]*'),
    mime_type text,
    description text,
    commentaire text,
    categorie_id text,
    file_created_at text,
    imported_at text not null check (length(imported_at) = 20),
    updated_at text not null check (length(updated_at) = 20),
    status text not null default 'active' check (status in ('active', 'archived', 'deleted')),
    locked integer not null default 0 check (locked in (0, 1)),
    original_name text not null check (length(trim(original_name)) > 0),
    collected_at text check (collected_at is null or length(collected_at) = 20),
    source text,
    integrity_status integer not null default 0 check (integrity_status between 0 and 4)
);

create index idx_preuves_sha256 on preuves (sha256);
create index idx_preuves_imported_at on preuves (imported_at);

create table extractions (
    id text primary key check (length(id) = 36),
    evidence_id text references preuves (id) on delete cascade,
    source_kind text not null check (source_kind in ('evidence', 'entity')),
    source_id text not null check (length(trim(source_id)) > 0),
    tool_id text not null check (length(trim(tool_id)) > 0),
    created_at text not null check (length(created_at) = 20)
);

create index idx_extractions_source on extractions (source_kind, source_id);
create index idx_extractions_evidence on extractions (evidence_id);

create table entites (
    id text primary key check (length(id) = 36),
    type_id integer not null references types_entite (id) on update cascade on delete restrict,
    valeur text not null check (length(trim(valeur)) > 0),
    label text check (label is null or length(trim(label)) > 0),
    description text,
    confiance integer not null default 50 check (confiance between 0 and 100),
    created_at text not null check (length(created_at) = 20),
    updated_at text not null check (length(updated_at) = 20),
    status text not null default 'active' check (status in ('active', 'archived', 'deleted')),
    unique (type_id, valeur)
);

create table relation_types (
    id integer primary key autoincrement,
    code text unique check (code is null or length(trim(code)) > 0),
    label text not null check (length(trim(label)) > 0),
    normalized_key text not null unique check (length(normalized_key) > 0),
    description text,
    is_system integer not null default 0 check (is_system in (0, 1))
);

create table relations (
    id text primary key check (length(id) = 36),
    entite_source_id text not null references entites (id) on update cascade on delete restrict,
    entite_cible_id text not null references entites (id) on update cascade on delete restrict,
    type_relation text not null check (length(trim(type_relation)) > 0),
    label text check (label is null or length(trim(label)) > 0),
    justification text,
    confiance integer not null default 50 check (confiance between 0 and 100),
    created_at text not null check (length(created_at) = 20),
    updated_at text not null check (length(updated_at) = 20),
    status text not null default 'active' check (status in ('active', 'archived', 'deleted', 'disputed')),
    relation_type_id integer references relation_types (id) on update cascade on delete restrict,
    check (entite_source_id <> entite_cible_id),
    unique (entite_source_id, entite_cible_id, type_relation)
);

create table evidence_entity_observations (
    id text primary key check (length(id) = 36),
    evidence_id text not null references preuves (id) on delete cascade,
    entity_id text references entites (id) on delete set null,
    entity_type text not null check (length(trim(entity_type)) > 0),
    value_raw text not null,
    value_normalized text,
    value_corrected text,
    role text not null,
    provenance_kind text not null check (length(trim(provenance_kind)) > 0),
    source_header text not null,
    occurrence integer not null default 1 check (typeof(occurrence) = 'integer' and occurrence > 0),
    verification_status text not null default 'proposed' check (
        verification_status in ('proposed', 'confirmed', 'rejected', 'conflicted', 'invalid')
    ),
    extraction_id text references extractions (id) on delete set null,
    warning text,
    observed_at text not null check (length(observed_at) = 20),
    integrated_at text not null check (length(integrated_at) = 20),
    promoted_at text check (promoted_at is null or length(promoted_at) = 20),
    promotion_kind text check (promotion_kind is null or promotion_kind in ('created', 'reused', 'legacy'))
);

create index idx_evidence_entity_observations_evidence on evidence_entity_observations (evidence_id);
create index idx_evidence_entity_observations_entity on evidence_entity_observations (entity_id);
create index idx_evidence_entity_observations_extraction on evidence_entity_observations (extraction_id);
create unique index idx_evidence_entity_observations_semantic on evidence_entity_observations (
    evidence_id,
    entity_type,
    coalesce(value_normalized, ''),
    role,
    source_header,
    occurrence,
    provenance_kind,
    coalesce(extraction_id, '')
);

create table journal (
    id text primary key check (length(id) = 36),
    event_time text not null check (length(event_time) = 20),
    action text not null check (length(trim(action)) > 0),
    objet_type text check (objet_type is null or length(trim(objet_type)) > 0),
    objet_id text check (objet_id is null or length(trim(objet_id)) > 0),
    resultat text not null check (resultat in ('success', 'failure', 'partial', 'cancelled')),
    details text check (details is null or length(trim(details)) > 0),
    acteur text check (acteur is null or length(trim(acteur)) > 0),
    created_at text not null check (length(created_at) = 20),
    check ((objet_type is null) = (objet_id is null))
);

create index idx_journal_event_time on journal (event_time);
create index idx_journal_objet on journal (objet_type, objet_id);
