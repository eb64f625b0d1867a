-- A counter in its key.
--
-- The three small algorithms keep theirs in a hash, whose values stay short enough to be kept together:
--   c  at, a, b, a hash of the quota that shaped it, and if anything is held until when at least
--   q  that quota: version, limit, window, capacity
--   h  all holds: id, cost, since, until
--   n  first and next number of the ids below; n<number> names one, i<id><cost> is one: end, replays left
--   m  the same of what was charged: m<number>, p<id><cost>
-- The log keeps all of it in its sorted set, below zero so as not to be mistaken for requests:
--   -2^53                 one member: at, a, b, held until, version, limit, window, capacity, serial, costly, holds
--   -(end * 4 + left)     a request id: i<id><cost>
--   the same - 2^52       what was charged: p<id><cost>
--
-- The key's end is moved when a counter is written for the first time in a stretch of `rest`, the time in which it
-- comes to rest, and then to twice that: so it always lives long enough, and most writes leave it alone.

local HEAD = -2 ^ 53
local HOLD_BYTES = 40
local MAX_HOLDS = 1024
-- How far a counter may be ahead of the clock before the clock is believed.
local MAX_AHEAD = 10000

local kinds = { token_bucket, fixed_window, sliding_window, sliding_log }

-- All counters this call has met, by key: each is read and written once, however many ask for it.
local met = {}

local function same_figures(quota, limit, window, capacity)
  return quota.limit == limit and quota.window == window and quota.capacity == capacity
end

-- The quota with these figures: the one asked for, if it is the same.
local function same_or_other(asked, version, limit, window, capacity)
  if asked.version == version and same_figures(asked, limit, window, capacity) then
    return asked
  end
  local quota = { kind = asked.kind, version = version, limit = limit, window = window, capacity = capacity }
  quota.rest = asked.kind.rest(quota)
  return quota
end

local function new_counter(key, quota, at, a, b, held_until)
  return {
    key = key, kind = quota.kind, quota = quota, at = at, a = a, b = b, held_until = held_until,
    written_at = at, holds = false, timed = false, dirty = false, unused = false, renew = false, last_hold = 0,
  }
end

local function fresh(key, asked)
  local counter = new_counter(key, asked, now, 0, 0, 0)
  counter.holds, counter.unused, counter.renew = '', true, true
  return counter
end

-- Raises what is wrong with reading a key, unless it is that the key holds something else.
local function raise_unless_foreign(reply, ...)
  if not find(reply.err, 'WRONGTYPE', 1, true) then
    call(...)
  end
end

local function load_hash(key, asked)
  local fields = try('HMGET', key, 'c', 'q')
  if fields.err then
    raise_unless_foreign(fields, 'HMGET', key, 'c', 'q')
    return false
  elseif not fields[1] then
    return fresh(key, asked)
  elseif not fields[2] then
    return false
  end
  local at, a, b, hash, held_until = unpack(fields[1])
  local quota = asked
  if hash ~= asked.hash then
    quota = same_or_other(asked, unpack(fields[2]))
    quota.hash = hash
  end
  return new_counter(key, quota, at, a, b, held_until or 0)
end

local function save_hash(counter)
  local key, quota, state = counter.key, counter.quota, nil
  if counter.held_until == 0 then
    state = pack(counter.at, counter.a, counter.b, quota.hash)
  else
    state = pack(counter.at, counter.a, counter.b, quota.hash, counter.held_until)
  end
  if counter.renew then
    call('HSET', key, 'c', state, 'q', pack(quota.version, quota.limit, quota.window, quota.capacity))
  else
    call('HSET', key, 'c', state)
  end
  if counter.holds_changed then
    if counter.holds == '' then
      call('HDEL', key, 'h')
    else
      call('HSET', key, 'h', counter.holds)
    end
  end
end

local function load_log(key, asked)
  local heads = try('ZRANGEBYSCORE', key, HEAD, HEAD)
  if heads.err then
    raise_unless_foreign(heads, 'ZRANGEBYSCORE', key, HEAD, HEAD)
    return false
  elseif not heads[1] then
    local counter = fresh(key, asked)
    counter.serial, counter.costly = 0, false
    return counter
  end
  local at, a, b, held_until, version, limit, window, capacity, serial, costly, holds = unpack(heads[1])
  local counter = new_counter(key, same_or_other(asked, version, limit, window, capacity), at, a, b, held_until)
  counter.head, counter.serial, counter.costly, counter.holds = heads[1], serial, costly, holds
  return counter
end

local function save_log(counter)
  local key, quota = counter.key, counter.quota
  local head = pack(
    counter.at, counter.a, counter.b, counter.held_until, quota.version, quota.limit, quota.window, quota.capacity,
    counter.serial, counter.costly, counter.holds
  )
  if head ~= counter.head then
    -- The new one first: a set that becomes empty is gone, and its end with it.
    call('ZADD', key, HEAD, head)
    if counter.head then
      call('ZREM', key, counter.head)
    end
  end
end

-- What the algorithms do, on a counter.

local function advance(counter, to)
  local kind, quota = counter.kind, counter.quota
  if kind.logs then
    return kind.advance(counter, to)
  end
  counter.a, counter.b = kind.advance(quota.limit, quota.window, counter.at, counter.a, counter.b, to)
  counter.at = to
end

local function fits(counter, cost)
  local kind, quota = counter.kind, counter.quota
  if kind.logs then
    return kind.fits(counter, cost)
  end
  return kind.fits(quota.limit, quota.window, quota.capacity, counter.at, counter.a, counter.b, cost)
end

-- What remains, and how long from `at` until the counter is as if never used.
local function figures(counter)
  local kind, quota = counter.kind, counter.quota
  if kind.logs then
    return kind.figures(counter)
  end
  return kind.figures(quota.limit, quota.window, quota.capacity, counter.at, counter.a, counter.b)
end

-- How long from `at` until a request that does not fit now would.
local function wait(counter, cost)
  local kind, quota = counter.kind, counter.quota
  if kind.logs then
    return kind.wait(counter, cost)
  end
  return kind.wait(quota.limit, quota.window, quota.capacity, counter.at, counter.a, counter.b, cost)
end

local function charge(counter, cost, id)
  local kind = counter.kind
  counter.unused, counter.dirty = false, true
  if kind.logs then
    return kind.charge(counter, cost, id)
  end
  counter.a, counter.b = kind.charge(counter.quota.window, counter.a, counter.b, cost)
end

local function credit(counter, cost, since)
  local kind, quota = counter.kind, counter.quota
  counter.dirty = true
  if kind.logs then
    return kind.credit(counter, cost, since)
  end
  -- Nothing was consumed later than now.
  since = min(since, counter.at)
  counter.a, counter.b = kind.credit(quota.limit, quota.window, counter.at, counter.a, counter.b, cost, since)
end

local function reshape(counter, to)
  local kind, from = counter.kind, counter.quota
  if not kind.logs and (to.limit ~= from.limit or to.window ~= from.window or to.capacity ~= from.capacity) then
    counter.a, counter.b = kind.rescale(counter.at, counter.a, counter.b, from, to)
  end
  counter.quota, counter.dirty, counter.renew = to, true, true
  advance(counter, counter.at)
end

-- Writes what has changed.
local function save(counter)
  local quota = counter.quota
  local rest = quota.rest
  local stretch = counter.at - counter.at % rest
  local renew = counter.renew or counter.written_at < stretch or counter.last_hold > 0
  if counter.kind.logs then
    save_log(counter)
  else
    save_hash(counter)
  end
  if renew then
    local ttl = max(2 * rest + counter.at - now, counter.last_hold) + 1000
    if fixed_ttl > 0 then
      ttl = fixed_ttl
    end
    call('PEXPIRE', counter.key, ttl)
  end
end

local function load_holds(counter)
  if not counter.holds then
    counter.holds = call('HGET', counter.key, 'h') or ''
  end
  return counter.holds
end

local function change_holds(counter, holds)
  counter.holds, counter.holds_changed, counter.dirty = holds, true, true
  if holds == '' then
    counter.held_until = 0
  end
end

-- Gives back what was held too long. `held_until` is when the first hold ends, or did: one that was settled since
-- is found gone here.
local function release_expired(counter)
  local holds, left, earliest = load_holds(counter), {}, 0
  for start = 1, #holds, HOLD_BYTES do
    local cost, since, ends = unpack_bytes('<I8I8I8', holds, start + 16)
    if ends <= now then
      credit(counter, cost, since)
    else
      left[#left + 1] = sub(holds, start, start + HOLD_BYTES - 1)
      if earliest == 0 or ends < earliest then
        earliest = ends
      end
    end
  end
  counter.held_until = earliest
  change_holds(counter, concat(left))
end

local function add_hold(counter, id, cost, ttl)
  local ends = now + ttl
  if counter.held_until == 0 or ends < counter.held_until then
    counter.held_until = ends
  end
  counter.last_hold = max(counter.last_hold, ttl)
  change_holds(counter, load_holds(counter) .. id .. pack_bytes('<I8I8I8', cost, counter.at, ends))
end

-- Takes a hold out; answers with its cost and when it was charged, or nothing if it is gone.
local function remove_hold(counter, id)
  if counter.held_until == 0 then
    return nil
  end
  local holds, start = load_holds(counter), 1
  while true do
    start = find(holds, id, start, true)
    if not start then
      return nil
    elseif (start - 1) % HOLD_BYTES == 0 then
      break
    end
    start = start + 1
  end
  local cost, since = unpack_bytes('<I8I8', holds, start + 16)
  change_holds(counter, sub(holds, 1, start - 1) .. sub(holds, start + HOLD_BYTES))
  return cost, since
end

-- Lets time and changed rules take effect; a newer version of the rules reshapes a counter, an older one goes by
-- what is stored. Time alone need not be written down: it can be worked out again.
local function bring_up_to_date(counter, asked)
  if not counter.timed then
    counter.timed = true
    if counter.at - now > MAX_AHEAD then
      if counter.kind.logs then
        counter.kind.rebase(counter, now)
      end
      counter.at, counter.dirty, counter.renew = now, true, true
    end
    advance(counter, max(counter.at, now))
  end
  if counter.quota ~= asked and asked.limit > 0 then
    if counter.unused then
      counter.quota = asked
    elseif asked.version >= counter.quota.version then
      reshape(counter, asked)
    end
  end
  if counter.held_until ~= 0 and counter.held_until <= now then
    release_expired(counter)
  end
end

-- The counter of a key under a quota, up to date; false if the key holds something else.
local function counter_of(key, asked)
  local counter = met[key]
  if counter == nil then
    if asked.kind.logs then
      counter = load_log(key, asked)
    else
      counter = load_hash(key, asked)
    end
    met[key] = counter
  end
  if counter then
    bring_up_to_date(counter, asked)
  end
  return counter
end
