-- Tables and functions of Baton, schema version 1. PostgreSQL 12 or newer.

-- Each call of Baton is one statement in a transaction of its own. So no lock
-- is held while the server waits for a client.
-- A session counts until its row is deleted. A session that has expired is
-- deleted by the next client that meets it, and its entries with it (ON DELETE
-- CASCADE), so a late renewal cannot revive what another client has ignored.

-- Locks are taken in the order queues by name, session. A renewal needs the lock
-- on its session alone, which joins share with it, so it waits for no queue.

-- A snapshot that stays open, for example that of pg_dump, keeps all row
-- versions that are newer. So that lookups do not walk them, what changes with
-- each join is no column of baton_queues but a row of baton_tokens, of which the
-- greatest is found first; and entries are looked up from low on.

-- The secret is random. Only roles that may read baton_schema know the channel
-- of notifications, to which each role of the database could listen.
CREATE TABLE baton_schema (version integer NOT NULL, channel text NOT NULL);
INSERT INTO baton_schema VALUES (1, 'baton_{{secret}}');

-- ttl is in microseconds. Joins whose epoch is lower than the session's are
-- refused: they were sent before their contender was forgotten.
CREATE TABLE baton_sessions (
	id text COLLATE "C" PRIMARY KEY,
	ttl bigint NOT NULL,
	expires timestamptz NOT NULL,
	epoch bigint NOT NULL DEFAULT 0
);

-- baton_live has the microseconds that sessions have left.
CREATE VIEW baton_live AS SELECT id,
	CAST(EXTRACT(EPOCH FROM expires - clock_timestamp()) * 1000000 AS bigint) AS remains
	FROM baton_sessions;

-- Rows stay, as locks of their queues.
CREATE TABLE baton_queues (
	name text COLLATE "C" PRIMARY KEY,
	version bigint NOT NULL DEFAULT 0,
	record bytea
);

-- token is the latest token of a queue that has had entries: one row for each,
-- which stays, so that tokens rise. No entry has a token below low.
CREATE TABLE baton_tokens (
	queue text COLLATE "C" NOT NULL,
	token bigint NOT NULL,
	low bigint NOT NULL,
	PRIMARY KEY (queue, token)
);

CREATE TABLE baton_entries (
	queue text COLLATE "C" NOT NULL,
	token bigint NOT NULL,
	contender text COLLATE "C" NOT NULL,
	session text COLLATE "C" NOT NULL REFERENCES baton_sessions ON DELETE CASCADE,
	mode varchar(16) NOT NULL,
	value bytea NOT NULL,
	PRIMARY KEY (queue, token),
	UNIQUE (queue, contender)
);
CREATE INDEX baton_entries_session ON baton_entries (session, queue, token); -- in pages, in order

CREATE FUNCTION baton_channel() RETURNS text LANGUAGE sql STABLE AS $$
	SELECT channel FROM baton_schema
$$;

-- baton_notify notifies all clients. The server has one queue of notifications
-- for all its databases, and a session of any role that listens and does not
-- receive can fill it. Then each commit with a notification fails, and no entry
-- could leave. So from half on there is none: clients notice, and poll.
CREATE FUNCTION baton_notify(p_message text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
	IF pg_notification_queue_usage() < 0.5 THEN
		PERFORM pg_notify(baton_channel(), p_message);
	END IF;
END $$;

-- baton_low returns a token below which a queue has no entries.
CREATE FUNCTION baton_low(p_queue text) RETURNS bigint LANGUAGE sql STABLE AS $$
	SELECT low FROM baton_tokens WHERE queue = p_queue ORDER BY token DESC LIMIT 1
$$;

-- baton_left notifies of an entry that has left a queue with other contenders.
-- It locks the queue first: a contender that joins at the same time is either
-- seen here, or sees that the entry is gone. Commits with a notification wait
-- for each other in the whole cluster, so an uncontended release has none.
CREATE FUNCTION baton_left() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
	PERFORM FROM baton_queues WHERE name = OLD.queue FOR UPDATE;
	IF EXISTS (SELECT FROM baton_entries WHERE queue = OLD.queue AND token >= baton_low(OLD.queue)) THEN
		PERFORM baton_notify(OLD.token || ' ' || OLD.queue);
	END IF;
	RETURN NULL;
END $$;
CREATE TRIGGER baton_left AFTER DELETE ON baton_entries FOR EACH ROW EXECUTE FUNCTION baton_left();

-- The functions below return an outcome, which session.go explains, and a number.

CREATE FUNCTION baton_open(p_session text, p_ttl bigint,
	OUT outcome text, OUT number bigint) LANGUAGE plpgsql AS $$
BEGIN
	IF current_setting('transaction_isolation') <> 'read committed' THEN
		RAISE EXCEPTION 'Baton needs the isolation level read committed, not %',
			current_setting('transaction_isolation') USING ERRCODE = 'feature_not_supported';
	END IF;
	PERFORM baton_end(id, true, false) FROM (SELECT id FROM baton_live WHERE remains <= 0 LIMIT 2) AS s;
	INSERT INTO baton_sessions (id, ttl, expires)
		VALUES (p_session, p_ttl, clock_timestamp() + p_ttl * interval '1 microsecond');
	outcome := 'ok';
END $$;

CREATE FUNCTION baton_renew(p_session text,
	OUT outcome text, OUT number bigint) LANGUAGE plpgsql AS $$
BEGIN
	UPDATE baton_sessions SET expires = clock_timestamp() + ttl * interval '1 microsecond'
		WHERE id = p_session AND expires > clock_timestamp();
	outcome := CASE WHEN FOUND THEN 'ok' ELSE 'lost' END;
END $$;

-- baton_end ends a session, unless p_expired asks for one that has expired and
-- it has not. Clients bound their requests, and one that is cut short has done
-- nothing. So a call removes some entries of a session that has many, which
-- then has expired for good, and returns 'more'. Unless p_waits it does nothing
-- if a row that it needs is locked. For one that has expired it mostly waits for
-- a moment, since joins wait for the queues that it has locked by then, but
-- sometimes for longer: on a busy queue that may be needed.
CREATE FUNCTION baton_end(p_session text, p_expired boolean, p_waits boolean DEFAULT true,
	OUT outcome text, OUT number bigint) LANGUAGE plpgsql AS $$
DECLARE
	most CONSTANT bigint := 500;
	n bigint;
	locked bigint;
	queues text[];
	tokens bigint[];
BEGIN
	outcome := 'ok';
	IF p_expired AND NOT EXISTS (SELECT FROM baton_sessions WHERE id = p_session AND expires <= clock_timestamp()) THEN
		RETURN;
	END IF;
	SELECT count(*), array_agg(queue), array_agg(token) INTO n, queues, tokens
		FROM (SELECT queue, token FROM baton_entries WHERE session = p_session LIMIT most) AS e;
	IF p_waits THEN
		IF p_expired THEN
			PERFORM set_config('lock_timeout', CAST(250 * power(2, floor(random() * 4)) AS int) || 'ms', true);
		END IF;
		PERFORM FROM baton_queues WHERE name = ANY (queues) ORDER BY name FOR UPDATE;
	ELSE
		PERFORM FROM baton_queues WHERE name = ANY (queues) FOR UPDATE SKIP LOCKED;
		GET DIAGNOSTICS locked = ROW_COUNT;
		PERFORM FROM baton_sessions WHERE id = p_session FOR UPDATE SKIP LOCKED;
		IF NOT FOUND OR locked < (SELECT count(DISTINCT queue) FROM unnest(queues) AS queue) THEN
			RETURN;
		END IF;
	END IF;
	IF n < most THEN
		DELETE FROM baton_sessions WHERE id = p_session
			AND (NOT p_expired OR expires <= clock_timestamp());
		RETURN;
	END IF;
	UPDATE baton_sessions SET expires = 'epoch' WHERE id = p_session
		AND (NOT p_expired OR expires <= clock_timestamp());
	IF FOUND THEN
		DELETE FROM baton_entries AS e USING unnest(queues, tokens) AS u (queue, token)
			WHERE e.queue = u.queue AND e.token = u.token;
		outcome := 'more';
	END IF;
END $$;

-- baton_join: the lock on the queue's row makes the order of commits that of
-- tokens, and orders joins against baton_leave, which raises the epoch. That on
-- the session's row orders them against baton_end, and lets renewals pass.
-- An entry without a session is of no contender: foreign keys can be switched
-- off, for an import. Reads do not show it.
CREATE FUNCTION baton_join(p_queue text, p_session text, p_epoch bigint, p_contender text,
	p_mode text, p_value bytea, p_alone boolean, p_version bigint,
	OUT outcome text, OUT number bigint) LANGUAGE plpgsql AS $$
DECLARE
	my baton_sessions;
	q baton_queues;
	last baton_tokens;
	first bigint;
	ahead boolean;
BEGIN
	SELECT * INTO q FROM baton_queues WHERE name = p_queue FOR UPDATE;
	IF NOT FOUND THEN
		INSERT INTO baton_queues (name) VALUES (p_queue) ON CONFLICT DO NOTHING;
		SELECT * INTO q FROM baton_queues WHERE name = p_queue FOR UPDATE;
	END IF;
	SELECT * INTO my FROM baton_sessions WHERE id = p_session FOR KEY SHARE;
	IF NOT FOUND OR my.expires <= clock_timestamp() THEN
		outcome := 'lost';
		RETURN;
	END IF;
	IF my.epoch > p_epoch THEN
		outcome := 'late';
		RETURN;
	END IF;
	SELECT token INTO number FROM baton_entries WHERE queue = p_queue AND contender = p_contender;
	SELECT * INTO last FROM baton_tokens WHERE queue = p_queue ORDER BY token DESC LIMIT 1;
	SELECT token INTO first FROM baton_entries
		WHERE queue = p_queue AND token >= COALESCE(last.low, 0) ORDER BY token LIMIT 1;
	ahead := COALESCE(first < COALESCE(number, first + 1), false);
	outcome := CASE WHEN ahead THEN 'ok' ELSE 'first' END;
	IF number IS NOT NULL THEN
		RETURN;
	END IF;
	IF p_version <> 0 AND p_version <> q.version THEN
		outcome := 'stale';
	ELSIF p_alone AND ahead AND EXISTS (SELECT FROM baton_entries AS e JOIN baton_sessions AS s ON s.id = e.session
			WHERE e.queue = p_queue AND e.token >= last.low) THEN
		outcome := 'taken';
	ELSE
		number := COALESCE(last.token, 0) + 1;
		DELETE FROM baton_tokens WHERE queue = p_queue AND token = last.token;
		INSERT INTO baton_tokens (queue, token, low) VALUES (p_queue, number, COALESCE(first, number));
		INSERT INTO baton_entries (queue, token, contender, session, mode, value)
			VALUES (p_queue, number, p_contender, p_session, p_mode, p_value);
	END IF;
END $$;

-- baton_leave removes a contender's entry: the one with a token, or any if it
-- is 0. An epoch, unless it is 0, keeps joins that were sent earlier away. The
-- insert waits for one that is creating the queue's row.
CREATE FUNCTION baton_leave(p_queue text, p_session text, p_epoch bigint, p_contender text, p_token bigint,
	OUT outcome text, OUT number bigint) LANGUAGE plpgsql AS $$
BEGIN
	PERFORM FROM baton_queues WHERE name = p_queue FOR UPDATE;
	IF p_epoch > 0 THEN
		INSERT INTO baton_queues (name) VALUES (p_queue) ON CONFLICT (name) DO UPDATE SET name = p_queue;
		UPDATE baton_sessions SET epoch = GREATEST(epoch, p_epoch) WHERE id = p_session;
	END IF;
	-- With = the plan might use the session's index, and walk old row versions.
	DELETE FROM baton_entries WHERE queue = p_queue AND contender = p_contender
		AND session IS NOT DISTINCT FROM p_session AND (p_token = 0 OR token = p_token);
	IF FOUND THEN
		outcome := 'ok';
	ELSIF EXISTS (SELECT FROM baton_sessions WHERE id = p_session AND expires > clock_timestamp()) THEN
		outcome := 'gone';
	ELSE
		outcome := 'lost';
	END IF;
END $$;

CREATE FUNCTION baton_set_record(p_queue text, p_session text, p_value bytea, p_version bigint,
	OUT outcome text, OUT number bigint) LANGUAGE plpgsql AS $$
DECLARE
	q baton_queues;
BEGIN
	SELECT * INTO q FROM baton_queues WHERE name = p_queue FOR UPDATE;
	IF NOT FOUND THEN
		INSERT INTO baton_queues (name) VALUES (p_queue) ON CONFLICT DO NOTHING;
		SELECT * INTO q FROM baton_queues WHERE name = p_queue FOR UPDATE;
	END IF;
	PERFORM FROM baton_sessions WHERE id = p_session AND expires > clock_timestamp() FOR KEY SHARE;
	outcome := CASE WHEN NOT FOUND THEN 'lost' WHEN q.version <> p_version THEN 'stale' ELSE 'ok' END;
	IF outcome <> 'ok' THEN
		RETURN;
	END IF;
	number := q.version + 1;
	UPDATE baton_queues SET record = p_value, version = number WHERE name = p_queue;
	PERFORM baton_notify('0 ' || p_queue);
END $$;

-- The functions use the tables of this schema, whatever search_path a caller
-- has. A caller without rights to the tables gains none: they run as the caller.
DO $$
DECLARE
	f regprocedure;
BEGIN
	FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = current_schema()::regnamespace AND proname LIKE 'baton\_%' LOOP
		EXECUTE format('ALTER FUNCTION %s SET search_path = %I, pg_temp', f, current_schema());
	END LOOP;
END $$;
