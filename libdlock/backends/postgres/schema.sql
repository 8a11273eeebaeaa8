-- What libdlock keeps in PostgreSQL: the layout `table`. Installed by dlock doctor --install, or psql -f;
-- again is fine. Everything is in the schema `dlock`, and nobody but its owner touches the tables:
-- the others call functions, each of which is one request, one transaction and one round trip.
--
-- Rights: the role dlock_user may lock (GRANT dlock_user TO my_service), dlock_guard may only check a
-- fencing token. Names are bytes; leases end by this server's clock; one sequence numbers all grants.
--
-- A condition is a line in which nobody is granted anything until a signal: whoever is signalled is a holder, with a
-- token and a lease, until he has used it. Whose lease ends before, or who gives it back unused, passes it on.
--
-- Order of locks, so that no two requests wait for each other: the row of the name (dlock.locks) comes
-- first, everything else of the name behind it. A renewal takes rows of holders alone: whoever takes several of
-- these takes them in the order of (name, owner).

BEGIN;
-- Nothing of a schema that others may write to, such as `public`, is called for what it is named.
SET LOCAL search_path = pg_catalog, pg_temp;
SELECT pg_advisory_xact_lock(7236826970157); -- two who install at a time

-- Whether whoever installs it may, in words that say what to do; then the roles and the schema, and what becomes of
-- it. Nothing is called that somebody else may have put there.
DO $$
DECLARE
    ours CONSTANT int := 2; -- dlock.version(), below
    there int;
    schema_owner oid := (SELECT n.nspowner FROM pg_namespace n WHERE n.nspname = 'dlock');
    me record;
    stranger regrole;
    missing text[] := ARRAY(SELECT r FROM unnest(ARRAY['dlock_user', 'dlock_guard']) r WHERE to_regrole(r) IS NULL);
    role text;
BEGIN
    SELECT r.oid, r.rolname AS name, r.rolsuper AS super, r.rolsuper OR r.rolcreaterole AS makes_roles,
            has_database_privilege(current_database(), 'CREATE') AS makes_schemas
        INTO me FROM pg_roles r WHERE r.rolname = current_user;
    SELECT r.oid INTO stranger FROM pg_roles r WHERE r.oid <> me.oid AND NOT (me.super AND r.rolsuper) AND r.oid IN (
        SELECT schema_owner
        UNION SELECT c.relowner FROM pg_class c WHERE c.relnamespace = to_regnamespace('dlock')
        UNION SELECT p.proowner FROM pg_proc p WHERE p.pronamespace = to_regnamespace('dlock'));
    IF stranger IS NOT NULL THEN
        RAISE EXCEPTION 'the schema dlock, or something in it, belongs to %: install as that user, not as %',
            stranger, me.name USING ERRCODE = 'DL004';
    END IF;
    IF schema_owner IS NULL AND NOT me.makes_schemas THEN
        RAISE EXCEPTION 'there is no schema dlock, and % may not make it: install as the database''s owner, or GRANT CREATE ON DATABASE % TO %',
            me.name, quote_ident(current_database()), quote_ident(me.name) USING ERRCODE = 'DL004';
    END IF;
    IF missing <> '{}' AND NOT me.makes_roles THEN
        RAISE EXCEPTION 'there is no role %, and % may make none: CREATE ROLE % NOLOGIN, as one who may',
            array_to_string(missing, ' and no role '), me.name, array_to_string(missing, ' NOLOGIN; CREATE ROLE ')
            USING ERRCODE = 'DL004';
    END IF;
    IF to_regprocedure('dlock.version()') IS NOT NULL THEN
        EXECUTE 'SELECT dlock.version()' INTO there;
    END IF;
    IF there > ours THEN
        RAISE EXCEPTION 'the schema dlock is version %, and this one %: a newer libdlock made it', there, ours
            USING ERRCODE = 'DL003';
    END IF;
    FOREACH role IN ARRAY missing LOOP
        BEGIN
            EXECUTE format('CREATE ROLE %I NOLOGIN', role);
        EXCEPTION WHEN duplicate_object OR unique_violation THEN -- by who installs in another database now
            missing := array_remove(missing, role);
        END;
    END LOOP;
    IF schema_owner IS NULL THEN
        CREATE SCHEMA dlock;
    END IF;
    RAISE NOTICE '%', concat('the schema dlock, version ', ours, ', is ', CASE WHEN there IS NULL THEN 'made'
            WHEN there < ours THEN 'there now, instead of version ' || there ELSE 'made anew over itself' END,
            CASE WHEN missing <> '{}' THEN '; made the role ' || array_to_string(missing, ' and the role ') END,
            '; whoever locks needs GRANT dlock_user') USING ERRCODE = 'DL000';
END $$;

REVOKE ALL ON SCHEMA dlock FROM PUBLIC;

CREATE SEQUENCE IF NOT EXISTS dlock.tokens;

-- A name that is used, or was in the last day: the row is the mutex of all that is done about the name.
CREATE TABLE IF NOT EXISTS dlock.locks (
    name bytea PRIMARY KEY,
    id bigint NOT NULL DEFAULT nextval('dlock.tokens'), -- what a message says of it
    kind text NOT NULL,
    permits int -- of a semaphore
);

-- The last grant of a name. Who checks a token holds it shared until his transaction ends, so no later
-- grant can be made before.
CREATE TABLE IF NOT EXISTS dlock.fences (
    name bytea PRIMARY KEY,
    token bigint NOT NULL,
    granted timestamptz NOT NULL
) WITH (fillfactor = 70);

CREATE TABLE IF NOT EXISTS dlock.holders (
    name bytea NOT NULL,
    owner text NOT NULL, -- <client's uuid>:<number>
    shared boolean NOT NULL,
    take int NOT NULL,
    token bigint NOT NULL,
    since timestamptz NOT NULL,
    ends timestamptz NOT NULL,
    who bytea NOT NULL, -- what its client says of itself: client, host, pid
    data bytea NOT NULL,
    PRIMARY KEY (name, owner)
) WITH (fillfactor = 70);

-- Who waits, in the order of coming. A place is its client's until `ends`, which each request moves; told
-- that it is its turn, it has until `due` to come.
CREATE TABLE IF NOT EXISTS dlock.line (
    name bytea NOT NULL,
    place bigint NOT NULL DEFAULT nextval('dlock.tokens'),
    owner text NOT NULL,
    shared boolean NOT NULL,
    take int NOT NULL,
    since timestamptz NOT NULL,
    ends timestamptz NOT NULL,
    due timestamptz, -- not of a condition
    pid int, -- of its connection, where that is known: it stands there as long as that
    who bytea NOT NULL,
    PRIMARY KEY (name, place),
    UNIQUE (name, owner)
) WITH (fillfactor = 70);

CREATE OR REPLACE FUNCTION dlock.version() RETURNS int
LANGUAGE sql IMMUTABLE AS 'SELECT 2';

-- What is read behind a row that was waited for has to be what stands there now: a transaction that looks at an older
-- state would grant what somebody has, and signal past who waits.
CREATE OR REPLACE FUNCTION dlock.see_all() RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE EXCEPTION 'dlock looks at what others have just done: read committed is needed, not %',
            current_setting('transaction_isolation') USING ERRCODE = 'DL002';
    END IF;
END $$;

-- The row of a name, locked; made where it isn't there.
CREATE OR REPLACE FUNCTION dlock.enter(n bytea, k text) RETURNS dlock.locks
LANGUAGE plpgsql AS $$
DECLARE
    l dlock.locks;
BEGIN
    PERFORM dlock.see_all();
    LOOP
        SELECT * INTO l FROM dlock.locks WHERE name = n FOR UPDATE;
        IF FOUND THEN
            RETURN l;
        END IF;
        INSERT INTO dlock.fences VALUES (n, 0, clock_timestamp()) ON CONFLICT DO NOTHING;
        INSERT INTO dlock.locks (name, kind) VALUES (n, k) ON CONFLICT DO NOTHING;
    END LOOP;
END $$;

-- Whether one more may hold the lock beside its holders, and beside those who come before it: `ahead`, of whom
-- `writers_ahead` write, and who take `taken_ahead`.
CREATE OR REPLACE FUNCTION dlock.fits(l dlock.locks, sh boolean, tk int, ahead bigint, writers_ahead bigint,
    taken_ahead bigint) RETURNS boolean
LANGUAGE plpgsql AS $$
DECLARE
    held bigint;
    writers bigint;
    taken bigint;
BEGIN
    SELECT count(*), count(*) FILTER (WHERE NOT h.shared), coalesce(sum(h.take), 0) INTO held, writers, taken
        FROM dlock.holders h WHERE h.name = l.name;
    IF l.kind = 'condition' THEN
        RETURN false;
    END IF;
    IF l.kind = 'semaphore' THEN
        RETURN taken + taken_ahead + tk <= l.permits;
    END IF;
    IF sh THEN
        RETURN writers + writers_ahead = 0;
    END IF;
    RETURN held + ahead = 0;
END $$;

CREATE OR REPLACE FUNCTION dlock.lives(pid int) RETURNS boolean
LANGUAGE sql AS $$ SELECT pid IS NULL OR EXISTS (SELECT FROM pg_stat_get_activity(pid)) $$;

-- Whose turn it is, now that something has changed: told, and given until `due` to come. Places of the dead go.
CREATE OR REPLACE FUNCTION dlock.call_next(l dlock.locks, t timestamptz) RETURNS void
LANGUAGE plpgsql AS $$
DECLARE
    p dlock.line;
    ahead bigint := 0;
    writers_ahead bigint := 0;
    taken_ahead bigint := 0;
    called boolean := false;
BEGIN
    FOR p IN SELECT * FROM dlock.line WHERE name = l.name ORDER BY place LOOP
        IF p.ends <= t OR p.due <= t OR NOT dlock.lives(p.pid) THEN
            DELETE FROM dlock.line WHERE name = p.name AND place = p.place;
            CONTINUE;
        END IF;
        IF NOT dlock.fits(l, p.shared, p.take, ahead, writers_ahead, taken_ahead) THEN
            IF called THEN -- who comes next looks whether they came
                PERFORM pg_notify('dlock:' || split_part(p.owner, ':', 1), 'soon ' || l.id);
            END IF;
            EXIT;
        END IF;
        IF p.due IS NULL THEN
            called := true;
            UPDATE dlock.line SET due = t + interval '1 second' WHERE name = p.name AND place = p.place;
            PERFORM pg_notify('dlock:' || split_part(p.owner, ':', 1), 'free ' || l.id);
        END IF;
        ahead := ahead + 1;
        taken_ahead := taken_ahead + p.take;
        IF NOT p.shared THEN
            writers_ahead := writers_ahead + 1;
        END IF;
    END LOOP;
END $$;

-- Signals the first `most` of those who wait at a condition and live, and answers how many there were. They have five
-- seconds to come for it, more than for a lock, since they keep nobody out meanwhile. Who stands first behind them is told
-- as well: he looks when the first of these signals may have to go on.
CREATE OR REPLACE FUNCTION dlock.wake(l dlock.locks, most bigint, t timestamptz) RETURNS bigint
LANGUAGE plpgsql AS $$
DECLARE
    p dlock.line;
    woken bigint := 0;
BEGIN
    FOR p IN SELECT * FROM dlock.line WHERE name = l.name ORDER BY place LOOP
        IF p.ends <= t OR NOT dlock.lives(p.pid) THEN
            DELETE FROM dlock.line WHERE name = p.name AND place = p.place;
            CONTINUE;
        END IF;
        PERFORM pg_notify('dlock:' || split_part(p.owner, ':', 1), 'wake ' || split_part(p.owner, ':', 2));
        EXIT WHEN woken = most;
        DELETE FROM dlock.line WHERE name = p.name AND place = p.place;
        INSERT INTO dlock.holders VALUES (p.name, p.owner, false, 1, nextval('dlock.tokens'), t, t + interval '5 seconds',
            p.who, '');
        woken := woken + 1;
    END LOOP;
    RETURN woken;
END $$;

-- An owner whose number has 19 digits may keep what it has beyond its last release (lock.keep_ms), until somebody asks
-- for it.
CREATE OR REPLACE FUNCTION dlock.keeps(owner text) RETURNS boolean
LANGUAGE sql IMMUTABLE AS $$ SELECT length(split_part(owner, ':', 2)) = 19 $$;

-- What the owner is told that has the lock: Y; A: it is asked for, since it may be kept, and others wait.
CREATE OR REPLACE FUNCTION dlock.yes(n bytea, o text, t timestamptz) RETURNS "char"
LANGUAGE sql AS $$
    SELECT CASE WHEN dlock.keeps(o) AND EXISTS (SELECT FROM dlock.line p WHERE p.name = n AND p.ends > t) THEN 'A'
        ELSE 'Y' END::"char"
$$;

-- Replies: Y, A granted; H held (left_ms: when to ask again, 0: a transaction that has checked the token of the
-- last grant is still open); K another kind of lock is in use; S another size, in left_ms; P the semaphore has no size.
CREATE OR REPLACE FUNCTION dlock.acquire(n bytea, k text, o text, ttl_ms bigint, sh boolean, tk int, size int,
    once boolean, stay_ms bigint, listens boolean, w bytea, d bytea,
    OUT reply "char", OUT token bigint, OUT left_ms bigint, OUT id bigint, OUT placed boolean)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l dlock.locks := dlock.enter(n, k);
    t timestamptz := clock_timestamp();
    lease interval := ttl_ms * interval '1 ms';
    mine dlock.line;
    seen record;
    idle boolean;
    gone bigint := 0;
    due timestamptz;
    here int := CASE WHEN listens THEN pg_backend_pid() END;
BEGIN
    id := l.id;
    placed := false;
    UPDATE dlock.holders h SET ends = greatest(h.ends, t + lease), data = d
        WHERE h.name = n AND h.owner = o AND h.ends > t RETURNING h.token INTO token;
    IF FOUND THEN
        reply := dlock.yes(n, o, t);
        RETURN;
    END IF;
    PERFORM FROM dlock.holders h WHERE h.name = n AND h.ends <= t ORDER BY h.owner FOR UPDATE;
    IF FOUND THEN
        DELETE FROM dlock.holders h WHERE h.name = n AND h.ends <= t;
        GET DIAGNOSTICS gone = ROW_COUNT;
    END IF;
    IF gone > 0 AND l.kind = 'condition' AND dlock.wake(l, gone, t) > 0 THEN -- maybe this one
        SELECT * INTO reply, token, left_ms, id, placed
            FROM dlock.acquire(n, k, o, ttl_ms, sh, tk, size, once, stay_ms, listens, w, d);
        RETURN;
    END IF;
    SELECT * INTO mine FROM dlock.line p WHERE p.name = n AND p.owner = o;
    IF mine.ends <= t OR mine.due <= t THEN
        DELETE FROM dlock.line p WHERE p.name = n AND p.owner = o;
        mine := NULL;
    END IF;

    IF l.kind <> k OR l.permits IS DISTINCT FROM nullif(size, 0) OR k = 'semaphore' AND size = 0 THEN
        idle := NOT EXISTS (SELECT FROM dlock.holders h WHERE h.name = n)
            AND NOT EXISTS (SELECT FROM dlock.line p WHERE p.name = n AND p.ends > t);
        IF l.kind <> k AND NOT idle THEN
            reply := 'K';
        ELSIF k = 'semaphore' AND size > 0 AND NOT idle AND l.permits <> size THEN
            reply := 'S';
            left_ms := l.permits;
        ELSIF k = 'semaphore' AND size = 0 AND (l.kind <> k OR l.permits IS NULL) THEN
            reply := 'P';
        ELSIF l.kind <> k OR size > 0 THEN
            UPDATE dlock.locks r SET kind = k, permits = nullif(size, 0) WHERE r.name = n RETURNING * INTO l;
        END IF;
        IF reply IS NOT NULL THEN
            RETURN;
        END IF;
    END IF;
    IF k = 'semaphore' AND tk > l.permits THEN
        reply := 'S';
        left_ms := l.permits;
        RETURN;
    END IF;

    SELECT count(*) AS ahead, count(*) FILTER (WHERE NOT p.shared) AS writers, coalesce(sum(p.take), 0) AS taken
        INTO seen FROM dlock.line p
        WHERE p.name = n AND p.ends > t AND (p.due IS NULL OR p.due > t) AND (mine.place IS NULL OR p.place < mine.place);
    IF dlock.fits(l, sh, tk, seen.ahead, seen.writers, seen.taken) THEN
        PERFORM FROM dlock.fences f WHERE f.name = n FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN
            token := nextval('dlock.tokens');
            INSERT INTO dlock.holders VALUES (n, o, sh, tk, token, t, t + lease, w, d);
            UPDATE dlock.fences f SET token = acquire.token, granted = t WHERE f.name = n;
            IF mine.place IS NOT NULL THEN
                DELETE FROM dlock.line p WHERE p.name = n AND p.owner = o;
            END IF;
            IF mine.place IS NOT NULL AND (sh OR k = 'semaphore') THEN
                PERFORM dlock.call_next(l, t); -- there may be room for one more
            END IF;
            reply := dlock.yes(n, o, t);
            RETURN;
        END IF;
        left_ms := 0;
    END IF;

    reply := 'H'; -- each time, as a message may be lost with its connection
    PERFORM pg_notify('dlock:' || split_part(h.owner, ':', 1),
            concat('asked ', split_part(h.owner, ':', 2), ' ', encode(n, 'hex')))
        FROM dlock.holders h WHERE h.name = n AND dlock.keeps(h.owner);
    IF mine.place IS NOT NULL THEN
        UPDATE dlock.line p SET ends = t + stay_ms * interval '1 ms', pid = here,
            due = CASE WHEN left_ms = 0 THEN NULL ELSE p.due END WHERE p.name = n AND p.owner = o;
    ELSIF NOT once THEN
        INSERT INTO dlock.line (name, owner, shared, take, since, ends, pid, who)
            VALUES (n, o, sh, tk, t, t + stay_ms * interval '1 ms', here, w);
        placed := true;
    END IF;
    IF left_ms IS NULL THEN
        PERFORM dlock.call_next(l, t); -- a lease that has ended calls nobody
        SELECT min(e) INTO due FROM (SELECT h.ends AS e FROM dlock.holders h WHERE h.name = n
            UNION ALL SELECT p.due FROM dlock.line p WHERE p.name = n AND p.owner <> o) AS all_ends;
        IF k = 'condition' THEN -- the first looks after the signals; the others only keep their places
            due := least(t + stay_ms * interval '1 ms' / 3, CASE WHEN seen.ahead = 0 THEN due END);
        END IF;
        left_ms := ceil(greatest(extract(epoch FROM due - t) * 1000, 0)) + 1;
    END IF;
END $$;

-- One renewal each; Y, A, or N: it isn't that owner's any more. `longest` > 0: a lease that lasts longer than so
-- much is named in `overlong`, and cut if it is the one that the caller names.
CREATE OR REPLACE FUNCTION dlock.renew(names bytea[], owners text[], ttls bigint[], longest bigint[],
    named bigint[], texts bytea[]) RETURNS TABLE (reply "char", token bigint, overlong bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t timestamptz := clock_timestamp();
    most interval;
    was timestamptz;
BEGIN
    IF array_length(names, 1) > 1 THEN
        PERFORM FROM dlock.holders h JOIN unnest(names, owners) AS asked (n, o) ON h.name = asked.n AND h.owner = asked.o
            ORDER BY h.name, h.owner FOR UPDATE OF h;
        t := clock_timestamp(); -- it may have waited
    END IF;
    FOR i IN 1 .. array_length(names, 1) LOOP
        reply := 'N';
        token := 0;
        overlong := 0;
        most := nullif(longest[i], 0) * interval '1 ms';
        UPDATE dlock.holders h SET data = texts[i], ends = CASE
                WHEN h.ends > t + most AND (extract(epoch FROM h.ends) * 1000000)::bigint = named[i] THEN t + most
                ELSE greatest(h.ends, t + ttls[i] * interval '1 ms') END
            WHERE h.name = names[i] AND h.owner = owners[i] AND h.ends > t
            RETURNING h.token, h.ends INTO token, was;
        IF FOUND THEN
            reply := dlock.yes(names[i], owners[i], t);
            overlong := CASE WHEN was > t + most THEN (extract(epoch FROM was) * 1000000)::bigint ELSE 0 END;
        END IF;
        RETURN NEXT;
    END LOOP;
END $$;

-- A writer becomes a reader, and whoever can read beside it is called.
CREATE OR REPLACE FUNCTION dlock.downgrade(n bytea, o text, ttl_ms bigint, OUT reply "char", OUT token bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l dlock.locks := dlock.enter(n, 'write');
    t timestamptz := clock_timestamp();
BEGIN
    UPDATE dlock.holders h SET shared = true, ends = greatest(h.ends, t + ttl_ms * interval '1 ms')
        WHERE h.name = n AND h.owner = o AND h.ends > t RETURNING h.token INTO token;
    reply := CASE WHEN FOUND THEN 'Y' ELSE 'N' END;
    PERFORM dlock.call_next(l, t);
END $$;

-- Gives back what the owner has: the lock, its place, or its signal, which goes on.
CREATE OR REPLACE FUNCTION dlock.release(n bytea, o text, OUT reply "char")
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l dlock.locks;
    t timestamptz;
    ended timestamptz;
BEGIN
    reply := 'N';
    SELECT * INTO l FROM dlock.locks r WHERE r.name = n FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    t := clock_timestamp();
    DELETE FROM dlock.holders h WHERE h.name = n AND h.owner = o RETURNING h.ends INTO ended;
    IF ended > t THEN
        reply := 'Y';
    END IF;
    DELETE FROM dlock.line p WHERE p.name = n AND p.owner = o;
    IF FOUND THEN
        reply := 'Y';
    END IF;
    IF l.kind = 'condition' THEN -- and whoever is first now looks after the signals
        PERFORM dlock.wake(l, (ended IS NOT NULL)::int, t);
    ELSE
        PERFORM dlock.call_next(l, t);
    END IF;
END $$;

-- Gives back a condition's place: the signal of this token has done its work, so it goes on to nobody. Any other that is
-- there came to the place of a request that was late, and isn't the one that was used.
CREATE OR REPLACE FUNCTION dlock.use(n bytea, o text, used bigint, OUT reply "char")
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    PERFORM FROM dlock.locks r WHERE r.name = n FOR UPDATE;
    DELETE FROM dlock.holders h WHERE h.name = n AND h.owner = o AND h.token = used;
    reply := CASE WHEN FOUND THEN 'Y' ELSE dlock.release(n, o) END;
END $$;

-- Signals the first `most` who wait at a condition; K: a lock is in use under this name. Not safe to repeat.
CREATE OR REPLACE FUNCTION dlock.signal(n bytea, most bigint, OUT reply "char", OUT signalled bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l dlock.locks;
    t timestamptz;
    gone bigint;
BEGIN
    PERFORM dlock.see_all();
    reply := 'Y';
    signalled := 0;
    SELECT * INTO l FROM dlock.locks r WHERE r.name = n FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    t := clock_timestamp();
    IF l.kind <> 'condition' THEN
        IF EXISTS (SELECT FROM dlock.holders h WHERE h.name = n AND h.ends > t)
                OR EXISTS (SELECT FROM dlock.line p WHERE p.name = n AND p.ends > t) THEN
            reply := 'K';
        END IF;
        RETURN;
    END IF;
    PERFORM FROM dlock.holders h WHERE h.name = n AND h.ends <= t ORDER BY h.owner FOR UPDATE;
    DELETE FROM dlock.holders h WHERE h.name = n AND h.ends <= t;
    GET DIAGNOSTICS gone = ROW_COUNT;
    PERFORM dlock.wake(l, gone, t); -- these go on first
    signalled := dlock.wake(l, most, t);
END $$;

CREATE OR REPLACE FUNCTION dlock.verify(n bytea, o text, OUT reply "char")
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    reply := CASE WHEN EXISTS (SELECT FROM dlock.holders h
        WHERE h.name = n AND h.owner = o AND h.ends > clock_timestamp()) THEN 'Y' ELSE 'N' END;
END $$;

-- Takes the lock from this owner, or ('') from all. The token of who had it is stale from now on, or, while a
-- transaction that has checked it is open, from the next grant on.
CREATE OR REPLACE FUNCTION dlock.break(n bytea, o text, OUT reply "char")
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l dlock.locks;
    t timestamptz;
    gone bigint;
    broken bigint;
BEGIN
    reply := 'N';
    SELECT * INTO l FROM dlock.locks r WHERE r.name = n FOR UPDATE;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    t := clock_timestamp();
    PERFORM FROM dlock.holders h WHERE h.name = n AND (h.ends <= t OR o IN ('', h.owner)) ORDER BY h.owner FOR UPDATE;
    DELETE FROM dlock.holders h WHERE h.name = n AND h.ends <= t;
    GET DIAGNOSTICS gone = ROW_COUNT;
    DELETE FROM dlock.holders h WHERE h.name = n AND o IN ('', h.owner);
    GET DIAGNOSTICS broken = ROW_COUNT;
    IF l.kind = 'condition' THEN
        PERFORM dlock.wake(l, gone + broken, t);
    END IF;
    IF broken > 0 THEN
        reply := 'Y';
        PERFORM FROM dlock.fences f WHERE f.name = n FOR NO KEY UPDATE SKIP LOCKED;
        IF FOUND THEN -- else somebody's transaction is past its check
            UPDATE dlock.fences f SET token = nextval('dlock.tokens') WHERE f.name = n;
        END IF;
    END IF;
    PERFORM dlock.call_next(l, t);
END $$;

-- What a session holds, as a shared advisory lock, whose client listens on `channel` to those who ask for a lock: so it
-- ends with the session. Nobody waits for it.
CREATE OR REPLACE FUNCTION dlock.ear(channel text) RETURNS bigint
LANGUAGE sql IMMUTABLE AS $$ SELECT hashtextextended(channel, 7236826970157) $$;

CREATE OR REPLACE FUNCTION dlock.listen(channel text, OUT reply "char")
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    reply := CASE WHEN pg_try_advisory_lock_shared(dlock.ear(channel)) THEN 'Y' ELSE 'N' END;
END $$;

-- Asks the holders to give it up; N: nobody holds it; D: none of them listens.
CREATE OR REPLACE FUNCTION dlock.revoke(n bytea, OUT reply "char")
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    h dlock.holders;
    channel text;
    key bigint;
BEGIN
    reply := 'N';
    FOR h IN SELECT * FROM dlock.holders x WHERE x.name = n AND x.ends > clock_timestamp() LOOP
        channel := 'dlock:' || split_part(h.owner, ':', 1);
        key := dlock.ear(channel);
        IF EXISTS (SELECT FROM pg_locks k WHERE k.locktype = 'advisory' AND k.objsubid = 1 AND k.granted
                AND k.database = (SELECT b.oid FROM pg_database b WHERE b.datname = current_database())
                AND (k.classid::bigint << 32 | k.objid::bigint) = key) THEN
            PERFORM pg_notify(channel, 'revoke ' || split_part(h.owner, ':', 2));
            reply := 'Y';
        ELSIF reply = 'N' THEN
            reply := 'D';
        END IF;
    END LOOP;
END $$;

-- What `giver` holds is `o`'s, with a token of its own; again is fine. G: a guarded transaction is open.
CREATE OR REPLACE FUNCTION dlock.import(n bytea, giver text, o text, ttl_ms bigint, w bytea, d bytea,
    OUT reply "char", OUT token bigint)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    l dlock.locks := dlock.enter(n, 'mutex');
    t timestamptz := clock_timestamp();
    lease interval := ttl_ms * interval '1 ms';
    h dlock.holders;
BEGIN
    IF l.kind = 'condition' THEN -- a signal is nobody's to hand on, and those that have ended go on
        reply := 'N';
        RETURN;
    END IF;
    UPDATE dlock.holders x SET ends = greatest(x.ends, t + lease), data = d
        WHERE x.name = n AND x.owner = o AND x.ends > t RETURNING x.token INTO token;
    IF FOUND THEN
        reply := 'Y';
        RETURN;
    END IF;
    PERFORM FROM dlock.holders x WHERE x.name = n AND (x.ends <= t OR x.owner = giver) ORDER BY x.owner FOR UPDATE;
    DELETE FROM dlock.holders x WHERE x.name = n AND x.ends <= t; -- it may be what `o` had
    SELECT * INTO h FROM dlock.holders x WHERE x.name = n AND x.owner = giver AND x.ends > t;
    IF NOT FOUND THEN
        reply := 'N';
        RETURN;
    END IF;
    PERFORM FROM dlock.fences f WHERE f.name = n FOR NO KEY UPDATE SKIP LOCKED;
    IF NOT FOUND THEN
        reply := 'G';
        RETURN;
    END IF;
    reply := 'Y';
    token := nextval('dlock.tokens');
    UPDATE dlock.holders x SET owner = o, token = import.token, since = t, ends = t + lease, who = w, data = d
        WHERE x.name = n AND x.owner = giver;
    UPDATE dlock.fences f SET token = import.token, granted = t WHERE f.name = n;
END $$;

-- One row of what the lock is, one for each holder, one for each of the first 64 who wait.
CREATE OR REPLACE FUNCTION dlock.inspect(n bytea) RETURNS TABLE (what text, kind text, permits int, owner text,
    shared boolean, take int, token bigint, left_ms bigint, since_ms bigint, who text, data text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY SELECT 'lock', l.kind, l.permits, NULL::text, NULL::boolean,
        (SELECT count(*)::int FROM dlock.line p WHERE p.name = n AND p.ends > t AND (p.due IS NULL OR p.due > t)),
        NULL::bigint, NULL::bigint, NULL::bigint, NULL::text, NULL::text FROM dlock.locks l WHERE l.name = n;
    RETURN QUERY SELECT 'holder', NULL::text, NULL::int, h.owner, h.shared, h.take, h.token,
        (extract(epoch FROM h.ends - t) * 1000)::bigint, (extract(epoch FROM h.since) * 1000)::bigint,
        encode(h.who, 'hex'), encode(h.data, 'hex') FROM dlock.holders h WHERE h.name = n AND h.ends > t ORDER BY h.token;
    RETURN QUERY SELECT 'waiter', NULL::text, NULL::int, p.owner, p.shared, p.take, NULL::bigint, NULL::bigint,
        (extract(epoch FROM p.since) * 1000)::bigint, encode(p.who, 'hex'), NULL::text FROM dlock.line p
        WHERE p.name = n AND p.ends > t AND (p.due IS NULL OR p.due > t) ORDER BY p.place LIMIT 64;
END $$;

-- The held ones whose names begin so, in their order.
CREATE OR REPLACE FUNCTION dlock.list(beginning bytea, most bigint) RETURNS TABLE (name text, owner text,
    left_ms bigint, who text)
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t timestamptz := clock_timestamp();
BEGIN
    RETURN QUERY SELECT DISTINCT ON (h.name) encode(h.name, 'hex'), h.owner, (extract(epoch FROM h.ends - t) * 1000)::bigint,
            encode(h.who, 'hex')
        FROM dlock.holders h JOIN dlock.locks l USING (name)
        WHERE l.kind <> 'condition' AND h.name >= beginning AND h.ends > t
            AND substring(h.name FROM 1 FOR length(beginning)) = beginning
        ORDER BY h.name, h.token LIMIT most;
END $$;

-- Nothing stays of a name that nobody has used for so long; answers how many were forgotten. The tokens of
-- all names are one sequence, so they go on rising.
CREATE OR REPLACE FUNCTION dlock.forget(idle interval DEFAULT '1 day') RETURNS bigint
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    t timestamptz := clock_timestamp();
    n bytea;
    gone bigint := 0;
BEGIN
    FOR n IN SELECT f.name FROM dlock.fences f WHERE f.granted < t - idle
            AND NOT EXISTS (SELECT FROM dlock.holders h WHERE h.name = f.name AND h.ends > t) LIMIT 1000 LOOP
        PERFORM FROM dlock.locks l WHERE l.name = n FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND OR EXISTS (SELECT FROM dlock.holders h WHERE h.name = n AND h.ends > t)
            OR EXISTS (SELECT FROM dlock.line p WHERE p.name = n AND p.ends > t);
        PERFORM FROM dlock.fences f WHERE f.name = n FOR UPDATE SKIP LOCKED;
        CONTINUE WHEN NOT FOUND;
        PERFORM FROM dlock.holders h WHERE h.name = n ORDER BY h.owner FOR UPDATE;
        DELETE FROM dlock.holders h WHERE h.name = n;
        DELETE FROM dlock.line p WHERE p.name = n;
        DELETE FROM dlock.fences f WHERE f.name = n;
        DELETE FROM dlock.locks l WHERE l.name = n;
        gone := gone + 1;
    END LOOP;
    RETURN gone;
END $$;

-- In the transaction that writes what the lock protects: raises DL001 if a later grant exists. Until that
-- transaction ends, no later grant can be made.
CREATE OR REPLACE FUNCTION dlock.check(n bytea, token bigint) RETURNS void
LANGUAGE plpgsql SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    last bigint;
BEGIN
    SELECT f.token INTO last FROM dlock.fences f WHERE f.name = n FOR SHARE;
    IF last IS NULL OR $2 IS NULL OR $2 <= 0 OR last <> $2 THEN -- 0: asked for, and never granted
        RAISE EXCEPTION 'stale fencing token % of %: %', coalesce($2::text, 'NULL'), encode(n, 'escape'),
            coalesce('the last grant has ' || nullif(last, 0), 'this name was never granted') USING ERRCODE = 'DL001';
    END IF;
END $$;

CREATE OR REPLACE FUNCTION dlock.check(n text, token bigint) RETURNS void
LANGUAGE sql AS $$ SELECT dlock.check(pg_catalog.convert_to(n, 'UTF8'), token) $$;

REVOKE ALL ON ALL FUNCTIONS IN SCHEMA dlock FROM PUBLIC;
GRANT USAGE ON SCHEMA dlock TO dlock_user, dlock_guard;
GRANT EXECUTE ON FUNCTION dlock.version(), dlock.check(bytea, bigint), dlock.check(text, bigint)
    TO dlock_user, dlock_guard;

-- Who locks may call these. Rows come and go faster than they are vacuumed. Of what is dead only a plain scan of an index
-- takes note, so that it is passed over from then on; the others look at all of it each time, and are slower with each
-- grant.
DO $$
DECLARE
    f text;
BEGIN
    FOREACH f IN ARRAY ARRAY['acquire', 'renew', 'downgrade', 'release', 'use', 'signal', 'verify', 'break', 'listen',
        'revoke', 'import', 'inspect', 'list', 'forget'] LOOP
        EXECUTE format('GRANT EXECUTE ON FUNCTION dlock.%I TO dlock_user', f);
        EXECUTE format('ALTER FUNCTION dlock.%I SET enable_bitmapscan = off', f);
        EXECUTE format('ALTER FUNCTION dlock.%I SET enable_seqscan = off', f);
    END LOOP;
END $$;
ALTER FUNCTION dlock.check(bytea, bigint) SET enable_bitmapscan = off;
ALTER FUNCTION dlock.check(bytea, bigint) SET enable_seqscan = off;
COMMIT;
