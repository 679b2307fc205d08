package redisquota

import "github.com/redis/rueidis"

// A counter is a hash. All of its fields are integers.
//
//	w  number of the window; 0 for a budget
//	g  generation in which it was last written, see quota.Generation
//	h  held by reservations of generation g, and k of the one before
//	s  settled in the window
//	c  total that the ledger has counted of a budget
//
// What is settled of a budget and not counted yet has fields for each process (see
// quota.Process): s:PROCESS for what it settled in generation g, and p:PROCESS in the
// one before. They are removed when they are zero.
//
// Lua's numbers are exact up to 2^53, which is nine million dollars of cost; above
// it they are rounded to multiples of a few nano-dollars.
const functions = `
local function read(key, window, tolerance, budget, generation)
	local c = {w = 0, g = 0, h = 0, k = 0, c = 0, s = {}, p = {}, fields = {}}
	local list = redis.call('HGETALL', key)
	for i = 1, #list, 2 do
		local name, n = list[i], tonumber(list[i + 1]) or 0
		local kind = string.sub(name, 1, 1)
		if kind == 's' or kind == 'p' then
			c[kind][string.sub(name, 2)] = n
			c.fields[#c.fields + 1] = name
		else
			c[name] = n
		end
	end
	if not budget and (#list == 0 or window > c.w or window < c.w - tolerance) then
		c = {w = window, g = generation, h = 0, k = 0, c = 0, s = {}, p = {}, fields = c.fields}
	end
	if generation > c.g then
		local one = generation == c.g + 1
		c.k, c.h = one and c.h or 0, 0
		if budget then
			c.p, c.s = one and c.s or {}, {}
		end
		c.g = generation
	end
	return c
end

local function settled(c)
	local n = 0
	for _, kind in ipairs({'s', 'p'}) do
		for _, part in pairs(c[kind]) do
			n = n + part
		end
	end
	return n
end

-- raise brings a counter up to what the ledger has counted, which may have what is settled.
local function raise(c, counted)
	c.c = math.max(c.c, counted - settled(c))
end

local function write(key, c, lifetime)
	local args, gone = {}, {}
	local function set(name, n)
		args[#args + 1] = name
		args[#args + 1] = string.format('%.0f', math.min(n, 4611686018427387904))
	end
	for _, name in ipairs({'w', 'g', 'h', 'k', 'c'}) do
		set(name, c[name])
	end
	for _, kind in ipairs({'s', 'p'}) do
		for process, n in pairs(c[kind]) do
			if n > 0 then
				set(kind .. process, n)
			end
		end
	end
	for _, name in ipairs(c.fields) do
		if (c[string.sub(name, 1, 1)][string.sub(name, 2)] or 0) <= 0 then
			gone[#gone + 1] = name
		end
	end
	if #gone > 0 then
		redis.call('HDEL', key, unpack(gone))
	end
	redis.call('HSET', key, unpack(args))
	redis.call('PEXPIRE', key, lifetime)
end
`

// reserve takes the time after which nobody waits for it, the generation, and for
// each key but the last: window, tolerance, base, maximum, counted, amount, least,
// lifetime in milliseconds. The last key is that of the mark. It returns Redis' time,
// the index of the refused key or -1, 1 if the mark exists, and for each key used, held,
// window, generation and the granted amount. If it is late it returns the time only.
var reserve = rueidis.NewLuaScript(functions + `
local time = redis.call('TIME')
local reply = {tonumber(time[1]), tonumber(time[2])}
local latest, generation = tonumber(ARGV[1]), tonumber(ARGV[2])
if latest > 0 and reply[1] * 1000000 + reply[2] > latest then
	return reply
end
local refused, counters, amounts = -1, {}, {}
local mark = table.remove(KEYS)
for i, key in ipairs(KEYS) do
	local a = {}
	for j = 1, 8 do
		a[j] = tonumber(ARGV[2 + (i - 1) * 8 + j])
	end
	local budget = a[2] == 0
	local c = read(key, a[1], a[2], budget, generation)
	raise(c, a[5])
	local used, held = math.max(c.c + settled(c) - a[3], 0), c.h + c.k
	local left = math.max(a[4] - a[3] - used - held, 0)
	if refused < 0 and left < a[7] then
		refused = i - 1
	end
	counters[i], amounts[i] = c, math.min(a[6], left)
	for _, n in ipairs({used, held, c.w, c.g, amounts[i]}) do
		reply[#reply + 1] = n
	end
end
table.insert(reply, 3, refused)
table.insert(reply, 4, redis.call('EXISTS', mark))
if refused < 0 then
	for i, key in ipairs(KEYS) do
		if amounts[i] > 0 then
			counters[i].h = counters[i].h + amounts[i]
			write(key, counters[i], ARGV[2 + i * 8])
		end
	end
end
return reply
`)

// settle takes the process, and for each key: 1 for a budget, window, lease,
// generation, held, used, counted, lifetime in milliseconds. What was used in a window that has
// ended is ignored; it counts if Redis has lost the counter.
var settle = rueidis.NewLuaScript(functions + `
for i, key in ipairs(KEYS) do
	local a = {}
	for j = 1, 8 do
		a[j] = tonumber(ARGV[1 + (i - 1) * 8 + j])
	end
	local budget = a[1] == 1
	local part = budget and ':' .. ARGV[1] or ''
	local current = tonumber(redis.call('HGET', key, 'w') or a[2]) == a[2]
	if a[8] > 0 and (budget or current) then
		local c = read(key, a[2], 0, budget, a[4])
		raise(c, a[7])
		if a[3] == c.g then
			c.h = math.max(c.h - a[5], 0)
		elseif a[3] == c.g - 1 then
			c.k = math.max(c.k - a[5], 0)
		end
		c.s[part] = (c.s[part] or 0) + a[6]
		write(key, c, a[8])
	end
end
return #KEYS
`)

// correct takes the lifetime of budgets in milliseconds, the process, the beginning of
// the names of processes of its node, the number of the batch and how long it is known, and
// for each key but the last: the total, what it holds that the process settled, and 1 if it
// holds all that earlier processes settled. The last key has the number of the last batch of
// the process, which is not executed again.
var correct = rueidis.NewLuaScript(functions + `
local part, node = ':' .. ARGV[2], ':' .. ARGV[3]
local last = table.remove(KEYS)
if tonumber(redis.call('GET', last) or 0) >= tonumber(ARGV[4]) then
	return 0
end
redis.call('SET', last, ARGV[4], 'PX', ARGV[5])
for i, key in ipairs(KEYS) do
	local a = {}
	for j = 1, 3 do
		a[j] = tonumber(ARGV[5 + (i - 1) * 3 + j])
	end
	local c = read(key, 0, 0, true, 0)
	c.c = math.max(c.c, a[1])
	local before = math.min(c.p[part] or 0, a[2])
	c.p[part] = (c.p[part] or 0) - before
	c.s[part] = math.max((c.s[part] or 0) - (a[2] - before), 0)
	for _, list in ipairs({c.s, c.p}) do
		for process in pairs(list) do
			if a[3] == 1 and process ~= part and string.sub(process, 1, #node) == node then
				list[process] = 0
			end
		end
	end
	write(key, c, ARGV[1])
end
return #KEYS
`)
