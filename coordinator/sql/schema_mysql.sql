-- Tables and procedures of Baton, schema version 1. MySQL 8.0.29, MariaDB 10.5
-- or newer. schema_postgres.sql explains them. Here nothing notifies: waiters
-- poll. A statement ends with a line that has only "--". Clients may run them at
-- the same time.

CREATE TABLE IF NOT EXISTS baton_sessions (
	id VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
	ttl BIGINT NOT NULL,
	expires DATETIME(6) NOT NULL,
	epoch BIGINT NOT NULL DEFAULT 0
) ENGINE = InnoDB
--
CREATE OR REPLACE SQL SECURITY INVOKER VIEW baton_live AS SELECT id,
	TIMESTAMPDIFF(MICROSECOND, UTC_TIMESTAMP(6), expires) AS remains FROM baton_sessions
--
CREATE TABLE IF NOT EXISTS baton_queues (
	name VARCHAR(1500) CHARACTER SET ascii COLLATE ascii_bin PRIMARY KEY,
	token BIGINT NOT NULL DEFAULT 0,
	version BIGINT NOT NULL DEFAULT 0,
	record MEDIUMBLOB
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
--
CREATE TABLE IF NOT EXISTS baton_entries (
	queue VARCHAR(1500) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	token BIGINT NOT NULL,
	contender VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	session VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	mode VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
	value MEDIUMBLOB NOT NULL,
	PRIMARY KEY (queue, token),
	UNIQUE KEY (queue, contender),
	KEY (session),
	FOREIGN KEY (session) REFERENCES baton_sessions (id) ON DELETE CASCADE
) ENGINE = InnoDB ROW_FORMAT = DYNAMIC
--
CREATE PROCEDURE IF NOT EXISTS baton_open(p_session VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin, p_ttl BIGINT)
SQL SECURITY INVOKER
BEGIN
	DECLARE v_expired VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin;
	IF NOT @@autocommit THEN
		SIGNAL SQLSTATE '0A000' SET MESSAGE_TEXT = 'Baton needs connections with autocommit = 1';
	END IF;
	SELECT MIN(id) INTO v_expired FROM baton_live WHERE remains <= 0; -- locks no row
	IF v_expired IS NOT NULL THEN
	BEGIN
		-- Someone may have locked the row for long. MariaDB has no SKIP LOCKED in
		-- procedures, and MySQL no time of 0, which means not to wait.
		DECLARE v_wait BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
		DECLARE CONTINUE HANDLER FOR 1205, 1213 BEGIN END;
		SET SESSION innodb_lock_wait_timeout = IF(VERSION() LIKE '%MariaDB%', 0, 1);
		DELETE FROM baton_sessions WHERE id = v_expired AND expires <= UTC_TIMESTAMP(6);
		SET SESSION innodb_lock_wait_timeout = v_wait;
	END;
	END IF;
	INSERT INTO baton_sessions (id, ttl, expires)
		VALUES (p_session, p_ttl, TIMESTAMPADD(MICROSECOND, p_ttl, UTC_TIMESTAMP(6)));
	SELECT 'ok', 0;
END
--
-- The time of a statement is that of its beginning. So a renewal locks the row
-- first: one that has waited for it, and that a later one has overtaken, would
-- take time from the session.
CREATE PROCEDURE IF NOT EXISTS baton_renew(p_session VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin)
SQL SECURITY INVOKER
BEGIN
	DECLARE v_id VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin;
	DECLARE v_rows INT;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION
	BEGIN
		ROLLBACK;
		RESIGNAL;
	END;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION;
	SELECT id INTO v_id FROM baton_sessions WHERE id = p_session FOR UPDATE;
	UPDATE baton_sessions SET expires = TIMESTAMPADD(MICROSECOND, ttl, UTC_TIMESTAMP(6))
		WHERE id = p_session AND expires > UTC_TIMESTAMP(6);
	SET v_rows = ROW_COUNT();
	COMMIT;
	SELECT IF(v_rows > 0, 'ok', 'lost'), 0;
END
--
CREATE PROCEDURE IF NOT EXISTS baton_end(p_session VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin, p_expired BOOLEAN)
SQL SECURITY INVOKER
BEGIN
	DECLARE v_rows INT;
	-- The server goes on waiting for a lock when the client has given up.
	DECLARE v_wait BIGINT DEFAULT @@SESSION.innodb_lock_wait_timeout;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION
	BEGIN
		SET SESSION innodb_lock_wait_timeout = v_wait;
		RESIGNAL;
	END;
	SET SESSION innodb_lock_wait_timeout = IF(p_expired, 1, v_wait);
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	DELETE FROM baton_sessions WHERE id = p_session
		AND (NOT p_expired OR expires <= UTC_TIMESTAMP(6));
	SET v_rows = ROW_COUNT();
	SET SESSION innodb_lock_wait_timeout = v_wait;
	SELECT 'ok', v_rows;
END
--
CREATE PROCEDURE IF NOT EXISTS baton_join(p_queue VARCHAR(1500) CHARACTER SET ascii COLLATE ascii_bin, p_session VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
	p_epoch BIGINT, p_contender VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin, p_mode VARCHAR(16) CHARACTER SET ascii COLLATE ascii_bin,
	p_value MEDIUMBLOB, p_alone BOOLEAN, p_version BIGINT)
SQL SECURITY INVOKER
BEGIN
	DECLARE v_outcome VARCHAR(8) DEFAULT 'lost';
	DECLARE v_epoch, v_token, v_version, v_found BIGINT;
	DECLARE v_ahead BOOLEAN;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION
	BEGIN
		ROLLBACK;
		RESIGNAL;
	END;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION;
	SELECT token, version INTO v_token, v_version FROM baton_queues WHERE name = p_queue FOR UPDATE;
	IF v_token IS NULL THEN
		INSERT INTO baton_queues (name) VALUES (p_queue) ON DUPLICATE KEY UPDATE name = p_queue;
		SELECT token, version INTO v_token, v_version FROM baton_queues WHERE name = p_queue FOR UPDATE;
	END IF;
	SELECT epoch INTO v_epoch FROM baton_sessions
		WHERE id = p_session AND expires > UTC_TIMESTAMP(6) LOCK IN SHARE MODE;
	IF v_epoch > p_epoch THEN
		SET v_outcome = 'late';
	ELSEIF v_epoch IS NOT NULL THEN
		SET v_found = (SELECT token FROM baton_entries WHERE queue = p_queue AND contender = p_contender);
		SET v_ahead = EXISTS (SELECT 1 FROM baton_entries
			WHERE queue = p_queue AND (v_found IS NULL OR token < v_found));
		SET v_outcome = IF(v_ahead, 'ok', 'first');
		IF v_found IS NULL THEN
			IF p_alone AND v_ahead THEN -- with SELECT, as a subquery of IF or SET waits for locks
				SELECT EXISTS (SELECT 1 FROM baton_entries e
					JOIN baton_sessions s ON s.id = e.session WHERE e.queue = p_queue) INTO v_ahead;
			END IF;
			IF p_version <> 0 AND p_version <> v_version THEN
				SET v_outcome = 'stale';
			ELSEIF p_alone AND v_ahead THEN
				SET v_outcome = 'taken';
			ELSE
				SET v_found = v_token + 1;
				UPDATE baton_queues SET token = v_found WHERE name = p_queue;
				INSERT INTO baton_entries (queue, token, contender, session, mode, value)
					VALUES (p_queue, v_found, p_contender, p_session, p_mode, p_value);
			END IF;
		END IF;
	END IF;
	COMMIT;
	SELECT v_outcome, COALESCE(v_found, 0);
END
--
CREATE PROCEDURE IF NOT EXISTS baton_leave(p_queue VARCHAR(1500) CHARACTER SET ascii COLLATE ascii_bin, p_session VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
	p_epoch BIGINT, p_contender VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin, p_token BIGINT)
SQL SECURITY INVOKER
BEGIN
	DECLARE v_rows INT;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION
	BEGIN
		ROLLBACK;
		RESIGNAL;
	END;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION;
	IF p_epoch > 0 THEN
		UPDATE baton_sessions SET epoch = GREATEST(epoch, p_epoch) WHERE id = p_session;
	END IF;
	DELETE FROM baton_entries WHERE queue = p_queue AND contender = p_contender
		AND session = p_session AND (p_token = 0 OR token = p_token);
	SET v_rows = ROW_COUNT();
	COMMIT;
	SELECT CASE WHEN v_rows > 0 THEN 'ok' WHEN EXISTS
		(SELECT 1 FROM baton_live WHERE id = p_session AND remains > 0) THEN 'gone' ELSE 'lost' END, 0;
END
--
CREATE PROCEDURE IF NOT EXISTS baton_set_record(p_queue VARCHAR(1500) CHARACTER SET ascii COLLATE ascii_bin, p_session VARCHAR(32) CHARACTER SET ascii COLLATE ascii_bin,
	p_value MEDIUMBLOB, p_version BIGINT)
SQL SECURITY INVOKER
BEGIN
	DECLARE v_outcome VARCHAR(8) DEFAULT 'lost';
	DECLARE v_alive, v_version BIGINT;
	DECLARE EXIT HANDLER FOR SQLEXCEPTION
	BEGIN
		ROLLBACK;
		RESIGNAL;
	END;
	SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
	START TRANSACTION;
	SELECT version INTO v_version FROM baton_queues WHERE name = p_queue FOR UPDATE;
	IF v_version IS NULL THEN
		INSERT INTO baton_queues (name) VALUES (p_queue) ON DUPLICATE KEY UPDATE name = p_queue;
		SELECT version INTO v_version FROM baton_queues WHERE name = p_queue FOR UPDATE;
	END IF;
	SELECT 1 INTO v_alive FROM baton_sessions
		WHERE id = p_session AND expires > UTC_TIMESTAMP(6) LOCK IN SHARE MODE;
	IF v_alive IS NOT NULL THEN
		SET v_outcome = IF(v_version = p_version, 'ok', 'stale');
		IF v_version = p_version THEN
			UPDATE baton_queues SET record = p_value, version = version + 1 WHERE name = p_queue;
		END IF;
	END IF;
	COMMIT;
	SELECT v_outcome, COALESCE(v_version, 0) + 1;
END
--
CREATE TABLE IF NOT EXISTS baton_schema (version INT NOT NULL PRIMARY KEY) ENGINE = InnoDB
--
INSERT IGNORE INTO baton_schema VALUES (1)
