-- The protocol: one section for each script, which Redis runs alone. Each is sent after the section prelude, and after
-- the section alive if that is before it. Its heading has the keys that it needs, and the script names no other: while
-- a cluster moves the keys to another master, it refuses a script with keys on both, or with one that does not exist.
--
--   sessions  sorted set: session -> the microsecond at which it ends; 0 or less if it was ended
--   state     hash: "last" -> the last number; session -> its epoch
--   index     sorted set, all scores 0: "session queue id token" for each entry of a session;
--             "queue:token session" and "session queue - token" for each entry that it watches
--   queue     sorted set: "token id mode session\nvalue", an entry -> token
--   record    hash: "version", "value"
--
-- In the index, queue is the name of that key. A watch of the record has the token 0. No key has an expiry: when memory
-- is short Redis evicts such keys first, and a holder would not know. The first argument is the queue's name, which the
-- prelude removes; ARGV[1] is the caller's session. The clock is the server's.

--- prelude
local name = table.remove(ARGV, 1)
local call, own, known = redis.call, ARGV[1], {}
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local function text(number) return string.format('%.0f', number) end
local function lives(session)
	known[session] = known[session] or tonumber(call('ZSCORE', sessions, session) or 0)
	return known[session] > now
end
local function session_of(entry) return string.match(entry, '^%d+ %x+ %w+ (%x+)') end
-- An entry without its value. Who may write the keys can store any size.
local function head(entry) return string.sub(string.match(entry, '^[^\n]*'), 1, 1000) end
local function at(token) return call('ZRANGEBYSCORE', queue, token, token)[1] end

-- Returns a number above all earlier ones. It follows the clock, so it rises even if Redis forgets.
local function number(last)
	local next = text(math.max((last or tonumber(call('HGET', state, 'last') or 0)) + 1, now))
	call('HSET', state, 'last', next)
	return next
end

-- A write that needs no memory and changes nothing. Redis over its maxmemory refuses a script whose first write may need
-- some. A replica refuses all: it must not be read, since it lags.
local function may_write() call('ZREM', sessions, '') end
local function refusal(status)
	may_write()
	return {status}
end

local function watch(token)
	call('ZADD', index, 0, name .. ':' .. token .. ' ' .. own, 0, own .. ' ' .. name .. ' - ' .. token)
end

-- Ends the watches of a token. Messages are hints: they can be lost, and others may be able to publish.
local function notify(token, how)
	local prefix = name .. ':' .. token .. ' '
	for _, member in ipairs(call('ZRANGEBYLEX', index, '[' .. prefix, '(' .. name .. ':' .. token .. '!')) do
		local session = string.match(member, '%x+$')
		call('ZREM', index, member, session .. ' ' .. name .. ' - ' .. token)
		redis.pcall('PUBLISH', sessions .. ':' .. session, prefix .. how)
	end
end

local function drop(entry, how)
	local token, id, session = string.match(entry, '^(%d+) (%x+) %w+ (%x+)')
	call('ZREM', queue, entry)
	call('ZREM', index, session .. ' ' .. name .. ' ' .. id .. ' ' .. token)
	notify(token, how)
end

-- Returns an entry, or nothing after removing it if its session is dead.
local function living(entry)
	if not entry or lives(session_of(entry)) then return entry end
	drop(entry, 'left')
end

-- Returns the first (0) or last (-1) living entry.
local function at_end(i)
	while true do
		local entry = call('ZRANGE', queue, i, i)[1]
		if not entry or living(entry) then return entry end
	end
end

-- Returns the caller's entry with an id.
local function with(id)
	local prefix = own .. ' ' .. name .. ' ' .. id
	local member = call('ZRANGEBYLEX', index, '[' .. prefix .. ' ', '(' .. prefix .. '!')[1]
	return member and at(string.match(member, '%d+$'))
end

-- Adds to all what a dead session has left, and notes the time as a negative score, or forgets the session.
local function leftovers(session, all)
	local left = call('ZRANGEBYLEX', index, '[' .. session .. ' ', '(' .. session .. '!', 'LIMIT', 0, 1000)
	for _, member in ipairs(left) do table.insert(all, member) end
	if #left > 0 then
		call('ZADD', sessions, 'XX', text(-now), session)
	else
		call('ZREM', sessions, session)
		call('HDEL', state, session)
	end
	return all
end

--- open (sessions): session, ttl
call('ZADD', sessions, 'NX', text(now + ARGV[2]), own)
return {'ok'}

--- finish (sessions, state, index): session -> what it has left
may_write()
call('ZADD', sessions, 'XX', 0, own)
return leftovers(own, {'ok'})

--- sweep (sessions, index, queue): dead session, id or "-", token
if lives(own) then return {'ok'} end
local entry = at(ARGV[3])
if entry and session_of(entry) == own then drop(entry, 'left') end
call('ZREM', index, own .. ' ' .. name .. ' ' .. ARGV[2] .. ' ' .. ARGV[3], name .. ':' .. ARGV[3] .. ' ' .. own)
return {'ok'}

--- alive: the scripts below need a session that lives
if not lives(own) then return refusal('lost') end

--- extend (sessions): session, ttl. It is renew without the rest, with one key.
may_write()
call('ZADD', sessions, 'XX', text(now + ARGV[2]), own)
return {'ok'}

--- renew (sessions, state, index): session, ttl -> what dead sessions have left
may_write()
call('ZADD', sessions, 'XX', text(now + ARGV[2]), own)
local all = {'ok'}
-- One client removes what a session has left; another one, if that is still there after two seconds.
for _, session in ipairs(call('ZRANGEBYSCORE', sessions, text(2000000 - now), text(now), 'LIMIT', 0, 20)) do
	if #all < 1000 then leftovers(session, all) end
end
return all

--- mine (sessions, index): session, member or "" -> the next of its members in the index
local after = ARGV[2] == '' and '[' .. own .. ' ' or '(' .. ARGV[2]
return {'ok', unpack(call('ZRANGEBYLEX', index, after, '(' .. own .. '!', 'LIMIT', 0, 1000))}

--- join (sessions, state, index, queue, record): session, epoch, id, mode, alone, version of the record if that is among
-- the keys, value -> entry, whether it is first, the one before
local epoch, id, mode, alone, version, value = unpack(ARGV, 2)
local shard = call('HMGET', state, own, 'last')
if tonumber(epoch) < tonumber(shard[1] or 0) then return refusal('late') end
local first = at_end(0)
local entry = first and with(id)
if entry then
	may_write()
	return {'ok', head(entry), first == entry and '1' or '0', ''}
end
if record and version ~= (call('HGET', record, 'version') or '0') then return refusal('stale') end
if first and alone == '1' then return refusal('taken') end
local before, token = first and head(at_end(-1)) or '', number(tonumber(shard[2] or 0))
entry = token .. ' ' .. id .. ' ' .. mode .. ' ' .. own
call('ZADD', queue, token, entry .. '\n' .. value)
call('ZADD', index, 0, own .. ' ' .. name .. ' ' .. id .. ' ' .. token)
return {'ok', entry, first and '0' or '1', before}

--- ahead (sessions, index, queue, record): session, token or "" -> whether its entry is the last, the version of the
-- record if that is among the keys, those ahead of it
may_write()
local last, me = at_end(-1), ARGV[2] ~= '' and at(ARGV[2])
if me == nil then return {'gone'} end
local version = record and call('HGET', record, 'version') or '0'
local view = {'ok', (not me or last == me) and '1' or '0', version}
for _, entry in ipairs(call('ZRANGEBYSCORE', queue, '-inf', me and '(' .. ARGV[2] or '+inf')) do
	if living(entry) then table.insert(view, head(entry)) end
end
return view

--- watch (sessions, index, queue): session, tokens, own token or "" -> how long the sessions of others have left; or, if
-- one of the entries is gone, whether the own entry is the first
may_write()
local ends = math.huge
for token in string.gmatch(ARGV[2], '%S+') do
	local entry = living(at(token))
	if not entry then
		local first = at_end(0)
		return {'gone', first and ARGV[3] ~= '' and first == at(ARGV[3]) and session_of(first) == own and '1' or '0'}
	end
	local session = session_of(entry)
	if session ~= own then ends = math.min(ends, known[session]) end
	watch(token)
end
return {'ok', ends < math.huge and text(ends - now) or ''}

--- leave (sessions, index, queue): session, token, "left" or "passed", which is true of the first entry only
local entry = at(ARGV[2])
if not entry or session_of(entry) ~= own then return refusal('gone') end
drop(entry, ARGV[3] == 'passed' and at_end(0) == entry and 'passed' or 'left')
return {'ok'}

--- forget (sessions, state, index, queue): session, epoch, id
may_write()
call('HSET', state, own, text(math.max(ARGV[2], call('HGET', state, own) or 0)))
local entry = with(ARGV[3])
if entry then drop(entry, 'left') end
return {'ok'}

--- list (sessions, index, queue): session, limit, the size of the largest entry -> entries
may_write()
local most = tonumber(ARGV[3])
local list, all
repeat
	list, all = {'ok'}, call('ZRANGE', queue, 0, ARGV[2] - 1) -- all of them, if the limit is 0
	for _, entry in ipairs(all) do if living(entry) then table.insert(list, string.sub(entry, 1, most)) end end
until #list > #all
return list

--- record (sessions, index, record): session, known version, the size of the largest value -> version, value
may_write()
local version = call('HGET', record, 'version') or '0'
if version == ARGV[2] then watch('0') end
return {'ok', version, string.sub(call('HGET', record, 'value') or '', 1, tonumber(ARGV[3]))}

--- write (sessions, state, index, record): session, version, value -> the record's new version
if ARGV[2] ~= (call('HGET', record, 'version') or '0') then return refusal('stale') end
local version = number()
call('HSET', record, 'version', version, 'value', ARGV[3])
notify('0', version)
return {'ok', version}
