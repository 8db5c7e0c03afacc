"""All statements of a deployment's database, and its tables, in the SQL that SQLite and PostgreSQL share.

Parameters are named ``:name``. Types are those of SQLite; PostgreSQL's store says what it calls them.

What is personal: ``reports`` and ``steps`` (raw, until their release), ``secrets`` (totals, and the noise that hides
them), ``slots`` (who has which slot, by a keyed hash) and ``keys``. The rest is public, and covered by the guarantee.

A shuffler has a database of its own with the same tables, and uses ``mixed`` (counters of a batch) and ``used`` (whose
bits are in them) only; these are personal until their batch is closed.
"""

from __future__ import annotations

VERSION = 1  #: Of the tables. A new version gets a step in `MIGRATIONS`.

TABLES = """
CREATE TABLE deployments (
    name TEXT PRIMARY KEY,
    document TEXT NOT NULL,
    built BLOB NOT NULL,
    state TEXT NOT NULL,
    version BIGINT NOT NULL,
    planned BIGINT NOT NULL,
    size BIGINT NOT NULL,
    issued BIGINT NOT NULL,
    opened REAL NOT NULL,
    latest REAL NOT NULL,
    closing BIGINT NOT NULL
);
CREATE TABLE keys (
    deployment TEXT PRIMARY KEY,
    token BLOB NOT NULL,
    person BLOB,
    signing BLOB
);
CREATE TABLE secrets (
    deployment TEXT PRIMARY KEY,
    version BIGINT NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE learners (
    deployment TEXT PRIMARY KEY,
    version BIGINT NOT NULL,
    body BLOB NOT NULL
);
CREATE TABLE releases (
    deployment TEXT NOT NULL,
    version BIGINT NOT NULL,
    users BIGINT NOT NULL,
    body BLOB NOT NULL,
    hash TEXT NOT NULL,
    chain TEXT NOT NULL,
    PRIMARY KEY (deployment, version)
);
CREATE TABLE plans (
    deployment TEXT NOT NULL,
    version BIGINT NOT NULL,
    body TEXT NOT NULL,
    hash TEXT NOT NULL,
    PRIMARY KEY (deployment, version)
);
CREATE TABLE slots (
    deployment TEXT NOT NULL,
    version BIGINT NOT NULL,
    slot BIGINT NOT NULL,
    person BLOB,
    started REAL NOT NULL,
    erased BIGINT NOT NULL,
    PRIMARY KEY (deployment, version, slot)
);
CREATE INDEX slots_of_a_person ON slots (deployment, person);
CREATE TABLE reports (
    deployment TEXT NOT NULL,
    version BIGINT NOT NULL,
    slot BIGINT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (deployment, version, slot)
);
CREATE TABLE steps (
    deployment TEXT NOT NULL,
    version BIGINT NOT NULL,
    slot BIGINT NOT NULL,
    step BIGINT NOT NULL,
    state BIGINT NOT NULL,
    action BIGINT NOT NULL,
    reward REAL NOT NULL,
    PRIMARY KEY (deployment, version, slot, step)
);
CREATE TABLE batches (
    deployment TEXT NOT NULL,
    version BIGINT NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (deployment, version)
);
CREATE TABLE ledgers (
    population TEXT PRIMARY KEY,
    document TEXT NOT NULL
);
CREATE TABLE leases (
    purpose TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until REAL NOT NULL
);
CREATE TABLE mixed (
    deployment TEXT NOT NULL,
    version BIGINT NOT NULL,
    size BIGINT NOT NULL,
    encoder TEXT NOT NULL,
    ones BLOB NOT NULL,
    closed BIGINT NOT NULL,
    PRIMARY KEY (deployment, version)
);
CREATE TABLE used (
    deployment TEXT NOT NULL,
    version BIGINT NOT NULL,
    slot BIGINT NOT NULL,
    PRIMARY KEY (deployment, version, slot)
);
"""  # the one index beyond the keys: a person who starts again is looked up by their hash

#: What brings tables from the version before to each version; each step is one transaction.
MIGRATIONS: dict[int, str] = {}

KNOWN = "SELECT version FROM tables"
REMEMBER_TABLES = "CREATE TABLE tables (version BIGINT NOT NULL)"
SET_TABLES = "INSERT INTO tables (version) VALUES (:version)"
MOVE_TABLES = "UPDATE tables SET version = :version"

NAMES = "SELECT name FROM deployments ORDER BY name"
BUILT = "SELECT document, built FROM deployments WHERE name = :name"
DEPLOYMENT = """SELECT state, version, planned, size, issued, opened, latest, closing
    FROM deployments WHERE name = :name"""
#: With the row held until the transaction ends: slots are given out one after the other.
DEPLOYMENT_HELD = DEPLOYMENT + " FOR UPDATE"
NEW_DEPLOYMENT = """INSERT INTO deployments
    (name, document, built, state, version, planned, size, issued, opened, latest, closing)
    VALUES (:name, :document, :built, 'open', 0, 1, :size, 0, :now, :now, 0)"""
SET_STATE = "UPDATE deployments SET state = :state WHERE name = :name"
ISSUE = "UPDATE deployments SET issued = issued + 1, latest = :latest WHERE name = :name"
CLOSE = "UPDATE deployments SET closing = 1 WHERE name = :name AND version = :version"
#: Compare and swap: of two servers that made a release of one version, one gets it in.
ADVANCE = """UPDATE deployments SET version = version + 1, planned = 0, issued = 0, closing = 0, size = 0
    WHERE name = :name AND version = :version AND state = 'open' AND planned = 1 AND closing = 1"""
PLANNED = """UPDATE deployments SET planned = 1, size = :size, opened = :now, latest = :now
    WHERE name = :name AND version = :version AND planned = 0"""

KEYS = "SELECT token, person, signing FROM keys WHERE deployment = :name"
NEW_KEYS = "INSERT INTO keys (deployment, token, person, signing) VALUES (:name, :token, :person, :signing)"
FORGET_PERSON_KEY = "UPDATE keys SET person = NULL WHERE deployment = :name"

SECRET = "SELECT version, body FROM secrets WHERE deployment = :name"
NEW_SECRET = "INSERT INTO secrets (deployment, version, body) VALUES (:name, :version, :body)"
SET_SECRET = "UPDATE secrets SET version = :version, body = :body WHERE deployment = :name"
FORGET_SECRET = "DELETE FROM secrets WHERE deployment = :name"
LEARNER = "SELECT version, body FROM learners WHERE deployment = :name"
NEW_LEARNER = "INSERT INTO learners (deployment, version, body) VALUES (:name, :version, :body)"
SET_LEARNER = "UPDATE learners SET version = :version, body = :body WHERE deployment = :name"

NEW_RELEASE = """INSERT INTO releases (deployment, version, users, body, hash, chain)
    VALUES (:name, :version, :users, :body, :hash, :chain)"""
RELEASE = "SELECT users, body, hash, chain FROM releases WHERE deployment = :name AND version = :version"
RELEASES = "SELECT version, users, body, hash, chain FROM releases WHERE deployment = :name ORDER BY version"
HASHES = "SELECT version, users, hash, chain FROM releases WHERE deployment = :name ORDER BY version"
NEW_PLAN = "INSERT INTO plans (deployment, version, body, hash) VALUES (:name, :version, :body, :hash)"
PLAN = "SELECT body, hash FROM plans WHERE deployment = :name AND version = :version"
PLAN_HASHES = "SELECT version, hash FROM plans WHERE deployment = :name ORDER BY version"

SLOTS_OF = "SELECT version, slot, started, erased FROM slots WHERE deployment = :name AND person = :person"
NEW_SLOT = """INSERT INTO slots (deployment, version, slot, person, started, erased)
    VALUES (:name, :version, :slot, :person, :now, 0)"""
SLOT = "SELECT started, erased FROM slots WHERE deployment = :name AND version = :version AND slot = :slot"
ERASE_SLOT = "UPDATE slots SET erased = 1 WHERE deployment = :name AND version = :version AND slot = :slot"
#: Slots of a batch that can still be filled: nobody reported, and their time is not over.
AWAITED = """SELECT COUNT(*) FROM slots WHERE deployment = :name AND version = :version AND erased = 0
    AND started >= :since AND NOT EXISTS (SELECT 1 FROM reports WHERE reports.deployment = slots.deployment
    AND reports.version = slots.version AND reports.slot = slots.slot)"""
FORGET_STARTS = "UPDATE slots SET started = 0 WHERE deployment = :name AND version = :version"
FORGET_STRANGERS = "DELETE FROM slots WHERE deployment = :name AND version = :version AND person IS NULL"
FORGET_PEOPLE = "DELETE FROM slots WHERE deployment = :name"

NEW_REPORT = """INSERT INTO reports (deployment, version, slot, body) VALUES (:name, :version, :slot, :body)
    ON CONFLICT DO NOTHING"""
REPORTED = "SELECT 1 FROM reports WHERE deployment = :name AND version = :version AND slot = :slot"
REPORTS = "SELECT slot, body FROM reports WHERE deployment = :name AND version = :version ORDER BY slot"
ERASE_REPORT = "DELETE FROM reports WHERE deployment = :name AND version = :version AND slot = :slot"
FORGET_REPORTS = "DELETE FROM reports WHERE deployment = :name AND version = :version"
STEPS = """SELECT state, action, reward FROM steps
    WHERE deployment = :name AND version = :version AND slot = :slot ORDER BY step"""
ALL_STEPS = """SELECT slot, state, action, reward FROM steps
    WHERE deployment = :name AND version = :version ORDER BY slot, step"""
NEW_STEP = """INSERT INTO steps (deployment, version, slot, step, state, action, reward)
    VALUES (:name, :version, :slot, :step, :state, :action, :reward)"""
ERASE_STEPS = "DELETE FROM steps WHERE deployment = :name AND version = :version AND slot = :slot"
FORGET_STEPS = "DELETE FROM steps WHERE deployment = :name AND version = :version"
NEW_BATCH = """INSERT INTO batches (deployment, version, body) VALUES (:name, :version, :body)
    ON CONFLICT DO NOTHING"""
BATCH = "SELECT body FROM batches WHERE deployment = :name AND version = :version"
FORGET_BATCH = "DELETE FROM batches WHERE deployment = :name AND version = :version"

LEDGER = "SELECT document FROM ledgers WHERE population = :population"
NEW_LEDGER = "INSERT INTO ledgers (population, document) VALUES (:population, :document)"
SET_LEDGER = "UPDATE ledgers SET document = :document WHERE population = :population"
LEDGERS = "SELECT population, document FROM ledgers ORDER BY population"

NEW_LEASE = """INSERT INTO leases (purpose, holder, until) VALUES (:purpose, :holder, :until)
    ON CONFLICT DO NOTHING"""
TAKE_LEASE = """UPDATE leases SET holder = :holder, until = :until
    WHERE purpose = :purpose AND (holder = :holder OR until < :now)"""

MIXED = "SELECT size, encoder, ones, closed FROM mixed WHERE deployment = :name AND version = :version"
NEWEST_MIXED = "SELECT MAX(version) FROM mixed WHERE deployment = :name"
MIXED_HELD = MIXED + " FOR UPDATE"
NEW_MIXED = """INSERT INTO mixed (deployment, version, size, encoder, ones, closed)
    VALUES (:name, :version, :size, :encoder, :ones, 0) ON CONFLICT DO NOTHING"""
SET_MIXED = "UPDATE mixed SET ones = :ones WHERE deployment = :name AND version = :version"
CLOSE_MIXED = "UPDATE mixed SET ones = :ones, closed = 1 WHERE deployment = :name AND version = :version"
USE = "INSERT INTO used (deployment, version, slot) VALUES (:name, :version, :slot) ON CONFLICT DO NOTHING"
USED = "SELECT COUNT(*) FROM used WHERE deployment = :name AND version = :version"
FORGET_USED = "DELETE FROM used WHERE deployment = :name AND version = :version"
