package pgquota

// schema holds everything. The names of functions end in their version, so that gateways
// of different versions can run at the same time.
//
// A counter that was not written for a while expires. Columns are as follows: held
// and settled belong to the generation (see quota.Generation), held_before and
// settled_before to the one before. Rates are settled in settled only, whatever
// the generation. Counted is what the ledger has counted of a budget. What is settled of a
// budget and not counted yet is kept by process (see quota.Process): elements of
// process_settled and process_before belong to those of processes. Large results stop at
// 2^61, so that no sum overflows. The counter without a name exists while the table has what
// the ledger has counted.
var schema = [...]string{`
CREATE SCHEMA IF NOT EXISTS modelgate_limits`, `
CREATE TABLE IF NOT EXISTS modelgate_limits.counters (
	name TEXT COLLATE "C" PRIMARY KEY,
	number BIGINT NOT NULL,
	generation BIGINT NOT NULL,
	held BIGINT NOT NULL,
	held_before BIGINT NOT NULL,
	settled BIGINT NOT NULL,
	settled_before BIGINT NOT NULL,
	counted BIGINT NOT NULL,
	expires TIMESTAMPTZ NOT NULL
) WITH (fillfactor = 50)`, `
ALTER TABLE modelgate_limits.counters
	ADD COLUMN IF NOT EXISTS processes TEXT[] NOT NULL DEFAULT '{}',
	ADD COLUMN IF NOT EXISTS process_settled BIGINT[] NOT NULL DEFAULT '{}',
	ADD COLUMN IF NOT EXISTS process_before BIGINT[] NOT NULL DEFAULT '{}'`, `
CREATE TABLE IF NOT EXISTS modelgate_limits.batches (
	process TEXT COLLATE "C" PRIMARY KEY,
	number BIGINT NOT NULL,
	expires TIMESTAMPTZ NOT NULL
)`, `
CREATE OR REPLACE FUNCTION modelgate_limits.settled_1(c modelgate_limits.counters)
RETURNS BIGINT LANGUAGE sql AS $$
	SELECT c.settled + c.settled_before + LEAST(COALESCE(SUM(n), 0), 1::BIGINT << 61)::BIGINT
	FROM unnest(c.process_settled || c.process_before) n
$$`, `
CREATE OR REPLACE FUNCTION modelgate_limits.enter_3(c modelgate_limits.counters, name TEXT, number BIGINT, tolerance BIGINT, generation BIGINT, total BIGINT)
RETURNS modelgate_limits.counters LANGUAGE plpgsql AS $$
BEGIN
	IF c.name IS NULL OR tolerance > 0 AND (number > c.number OR number < c.number - tolerance) THEN
		c := ROW(name, number, generation, 0, 0, 0, 0, 0, clock_timestamp(), '{}', '{}', '{}');
	END IF;
	IF generation > c.generation THEN
		c.held_before := CASE WHEN generation = c.generation + 1 THEN c.held ELSE 0 END;
		c.held := 0;
		IF tolerance = 0 THEN
			c.settled_before := CASE WHEN generation = c.generation + 1 THEN c.settled ELSE 0 END;
			c.settled := 0;
			c.process_before := CASE WHEN generation = c.generation + 1 THEN c.process_settled ELSE array_fill(0::BIGINT, ARRAY[cardinality(c.processes)]) END;
			c.process_settled := array_fill(0::BIGINT, ARRAY[cardinality(c.processes)]);
		END IF;
		c.generation := generation;
	END IF;
	IF tolerance = 0 THEN -- total may have what is settled
		c.counted := GREATEST(c.counted, total - modelgate_limits.settled_1(c));
	END IF;
	RETURN c;
END $$`, `
CREATE OR REPLACE FUNCTION modelgate_limits.lock_1(wanted TEXT)
RETURNS modelgate_limits.counters LANGUAGE plpgsql AS $$
DECLARE
	c modelgate_limits.counters;
BEGIN
	LOOP
		SELECT * INTO c FROM modelgate_limits.counters WHERE name = wanted FOR UPDATE;
		EXIT WHEN FOUND;
		INSERT INTO modelgate_limits.counters VALUES (wanted, -1, 0, 0, 0, 0, 0, 0, clock_timestamp() + INTERVAL '1 minute')
		ON CONFLICT DO NOTHING;
	END LOOP;
	RETURN c;
END $$`, `
CREATE OR REPLACE FUNCTION modelgate_limits.write_2(c modelgate_limits.counters, lifetime BIGINT)
RETURNS VOID LANGUAGE sql AS $$
	UPDATE modelgate_limits.counters
	SET number = c.number, generation = c.generation, held = c.held, held_before = c.held_before,
		settled = c.settled, settled_before = c.settled_before, counted = c.counted,
		processes = ARRAY(SELECT p FROM unnest(c.processes, c.process_settled, c.process_before) u(p, s, b) WHERE s > 0 OR b > 0),
		process_settled = ARRAY(SELECT s FROM unnest(c.processes, c.process_settled, c.process_before) u(p, s, b) WHERE s > 0 OR b > 0),
		process_before = ARRAY(SELECT b FROM unnest(c.processes, c.process_settled, c.process_before) u(p, s, b) WHERE s > 0 OR b > 0),
		expires = clock_timestamp() + lifetime * INTERVAL '1 millisecond'
	WHERE name = c.name
$$`, `
CREATE OR REPLACE FUNCTION modelgate_limits.reserve_4(latest BIGINT, generation BIGINT, names TEXT[], numbers BIGINT[], tolerances BIGINT[],
	bases BIGINT[], maxima BIGINT[], totals BIGINT[], amounts BIGINT[], leasts BIGINT[], lifetimes BIGINT[])
RETURNS TEXT LANGUAGE plpgsql AS $$
DECLARE
	i INT;
	refused INT := -1;
	c modelgate_limits.counters;
	entered modelgate_limits.counters[];
	used BIGINT;
	held BIGINT;
	room BIGINT;
	reply BIGINT[];
	now BIGINT;
BEGIN
	reply := array_fill(0::BIGINT, ARRAY[5 * cardinality(names)]);
	FOR i IN SELECT n.i FROM unnest(names) WITH ORDINALITY n(name, i) ORDER BY n.name COLLATE "C" LOOP
		IF amounts[i] > 0 THEN
			c := modelgate_limits.lock_1(names[i]);
		ELSE
			SELECT * INTO c FROM modelgate_limits.counters WHERE name = names[i];
		END IF;
		c := modelgate_limits.enter_3(c, names[i], numbers[i], tolerances[i], generation, totals[i]);
		used := GREATEST(c.counted + modelgate_limits.settled_1(c) - bases[i], 0);
		held := c.held + c.held_before;
		room := GREATEST(maxima[i] - bases[i] - used - held, 0);
		IF room < leasts[i] AND (refused < 0 OR i - 1 < refused) THEN
			refused := i - 1;
		END IF;
		room := LEAST(amounts[i], room);
		reply[5 * i - 4 : 5 * i] := ARRAY[used, held, c.number, c.generation, room];
		c.held := c.held + room;
		entered[i] := c;
	END LOOP;
	now := (EXTRACT(EPOCH FROM clock_timestamp()) * 1000000)::BIGINT;
	IF latest > 0 AND now > latest THEN
		RETURN now::TEXT;
	END IF;
	IF refused < 0 THEN
		FOR i IN 1 .. cardinality(names) LOOP
			IF reply[5 * i] > 0 THEN
				PERFORM modelgate_limits.write_2(entered[i], lifetimes[i]);
			END IF;
		END LOOP;
	END IF;
	RETURN array_to_string(ARRAY[now, refused, (SELECT COUNT(*) FROM modelgate_limits.counters WHERE name = '')] || reply, ' ');
END $$`, `
CREATE OR REPLACE FUNCTION modelgate_limits.settle_3(process TEXT, names TEXT[], budgets BOOLEAN[], numbers BIGINT[], leases BIGINT[],
	generations BIGINT[], amounts BIGINT[], uses BIGINT[], totals BIGINT[], lifetimes BIGINT[])
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
	i INT;
	own INT;
	used BIGINT;
	c modelgate_limits.counters;
BEGIN
	FOR i IN SELECT n.i FROM unnest(names) WITH ORDINALITY n(name, i) ORDER BY n.name COLLATE "C" LOOP
		CONTINUE WHEN lifetimes[i] <= 0;
		c := modelgate_limits.lock_1(names[i]);
		CONTINUE WHEN NOT budgets[i] AND c.number <> numbers[i] AND c.number <> -1;
		c.number := numbers[i];
		c := modelgate_limits.enter_3(c, names[i], numbers[i], CASE WHEN budgets[i] THEN 0 ELSE 1 END, generations[i], totals[i]);
		IF leases[i] = c.generation THEN
			c.held := GREATEST(c.held - amounts[i], 0);
		ELSIF leases[i] = c.generation - 1 THEN
			c.held_before := GREATEST(c.held_before - amounts[i], 0);
		END IF;
		used := LEAST(uses[i], 1::BIGINT << 61);
		IF budgets[i] THEN
			own := array_position(c.processes, process);
			IF own IS NULL THEN
				c.processes := c.processes || process;
				c.process_settled := c.process_settled || 0::BIGINT;
				c.process_before := c.process_before || 0::BIGINT;
				own := cardinality(c.processes);
			END IF;
			c.process_settled[own] := LEAST(c.process_settled[own] + used, 1::BIGINT << 61);
		ELSE
			c.settled := LEAST(c.settled + used, 1::BIGINT << 61);
		END IF;
		PERFORM modelgate_limits.write_2(c, lifetimes[i]);
	END LOOP;
END $$`, `
CREATE OR REPLACE FUNCTION modelgate_limits.correct_3(process TEXT, node TEXT, names TEXT[], totals BIGINT[], settlements BIGINT[],
	earlier BOOLEAN[], lifetime BIGINT, batch BIGINT, batch_lifetime BIGINT)
RETURNS VOID LANGUAGE plpgsql AS $$
DECLARE
	i INT;
	p INT;
	c modelgate_limits.counters;
	before BIGINT;
BEGIN
	INSERT INTO modelgate_limits.batches VALUES (process, batch, clock_timestamp() + batch_lifetime * INTERVAL '1 millisecond')
	ON CONFLICT ON CONSTRAINT batches_pkey DO UPDATE SET number = EXCLUDED.number, expires = EXCLUDED.expires
	WHERE batches.number < EXCLUDED.number;
	IF NOT FOUND THEN -- executed before
		RETURN;
	END IF;
	FOR i IN SELECT n.i FROM unnest(names) WITH ORDINALITY n(name, i) ORDER BY n.name COLLATE "C" LOOP
		c := modelgate_limits.lock_1(names[i]);
		c.number := 0;
		c.counted := GREATEST(c.counted, totals[i]);
		FOR p IN 1 .. cardinality(c.processes) LOOP
			IF c.processes[p] = process THEN
				before := LEAST(c.process_before[p], settlements[i]);
				c.process_before[p] := c.process_before[p] - before;
				c.process_settled[p] := GREATEST(c.process_settled[p] - (settlements[i] - before), 0);
			ELSIF earlier[i] AND starts_with(c.processes[p], node) THEN
				c.process_before[p] := 0;
				c.process_settled[p] := 0;
			END IF;
		END LOOP;
		PERFORM modelgate_limits.write_2(c, lifetime);
	END LOOP;
END $$`,
}

// prepared reports whether the functions that are called exist, in these versions.
const prepared = `
	SELECT to_regproc('modelgate_limits.reserve_4') IS NOT NULL
		AND to_regproc('modelgate_limits.settle_3') IS NOT NULL
		AND to_regproc('modelgate_limits.correct_3') IS NOT NULL`

// lockSchema lets one process at a time create the schema. The number is
// arbitrary.
const lockSchema = `SELECT pg_advisory_xact_lock(7305011977)`

// fill makes the counter that exists while the table has what the ledger has counted.
const fill = `
	INSERT INTO modelgate_limits.counters VALUES ('', 0, 0, 0, 0, 0, 0, 0, 'infinity')
	ON CONFLICT DO NOTHING`

// sweepBatches removes the numbers of batches of processes that ended long ago.
const sweepBatches = `DELETE FROM modelgate_limits.batches WHERE expires < clock_timestamp()`

// sweep removes counters that have expired, a part at a time.
const sweep = `
	DELETE FROM modelgate_limits.counters
	WHERE name IN (SELECT name FROM modelgate_limits.counters WHERE expires < clock_timestamp() LIMIT 1000 FOR UPDATE SKIP LOCKED)`
