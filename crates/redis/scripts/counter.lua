-- A counter in its key.
--
-- The three small algorithms keep theirs in a hash, whose values stay short enough to be kept together:
--   c  at, a, b, expires, held until, then the quota that shaped it: version, limit, window, capacity
--   h  all holds: id, cost, since, until
--   n  first and next number of the ids below; n<number> names one, i<id><cost> is one: end, replays left
-- The log keeps all of it in its sorted set, below zero so as not to be mistaken for requests:
--   -2^53                 one member: as c, then serial, costly, holds
--   -(end * 4 + left)     a request id: i<id><cost>

local HEAD = -2 ^ 53
local HOLD_BYTES = 40
local MAX_HOLDS = 1024
-- How far a counter may be ahead of the clock before the clock is believed.
local MAX_AHEAD = 10000

-- The quota with these figures: the one asked for, if it is the same.
local function same_or_other(asked, version, limit, window, capacity)
  if asked.version == version and asked.limit == limit and asked.window == window and asked.capacity == capacity then
    return asked
  end
  return quota_of(asked.kind, version, limit, window, capacity)
end

local function counter_from(key, asked, state)
  local at, a, b, expires, held_until, version, limit, window, capacity = unpack(STATE, state)
  return {
    key = key, kind = asked.kind, quota = same_or_other(asked, version, limit, window, capacity),
    at = at, a = a, b = b, expires = expires, held_until = held_until, holds = false,
    timed = false, dirty = false, unused = false, last_hold = 0,
  }
end

local function fresh(key, asked)
  return {
    key = key, kind = asked.kind, quota = asked,
    at = now, a = 0, b = 0, expires = 0, held_until = 0, holds = '',
    timed = false, dirty = false, unused = true, last_hold = 0,
  }
end

local function state_of(counter)
  local quota = counter.quota
  return pack(
    STATE, counter.at, counter.a, counter.b, counter.expires, counter.held_until,
    quota.version, quota.limit, quota.window, quota.capacity
  )
end

local function load_hash(key, asked)
  local state = try('HGET', key, 'c')
  if not state then
    return fresh(key, asked)
  elseif type(state) == 'table' or #state ~= STATE_BYTES then
    return false
  end
  return counter_from(key, asked, state)
end

local function save_hash(counter)
  call('HSET', counter.key, 'c', state_of(counter))
  if counter.holds_changed then
    if counter.holds == '' then
      call('HDEL', counter.key, 'h')
    else
      call('HSET', counter.key, 'h', counter.holds)
    end
  end
end

local function load_log(key, asked)
  local heads = try('ZRANGEBYSCORE', key, HEAD, HEAD)
  if heads.err then
    return false
  end
  local head, counter = heads[1], nil
  if not head then
    counter = fresh(key, asked)
    counter.serial, counter.costly = 0, false
    return counter
  elseif #head < STATE_BYTES + 9 then
    return false
  end
  counter = counter_from(key, asked, head)
  local serial, costly = unpack('<I8B', head, STATE_BYTES + 1)
  counter.head, counter.serial, counter.costly = head, serial, costly == 1
  counter.holds = sub(head, STATE_BYTES + 10)
  return counter
end

local function save_log(counter)
  local costly = 0
  if counter.costly then
    costly = 1
  end
  local head = state_of(counter) .. pack('<I8B', counter.serial, costly) .. counter.holds
  if head ~= counter.head then
    -- The new one first: a set that becomes empty is gone, and its end with it.
    call('ZADD', counter.key, HEAD, head)
    if counter.head then
      call('ZREM', counter.key, counter.head)
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
  counter.a, counter.b = kind.credit(quota.limit, quota.window, counter.at, counter.a, counter.b, cost, since)
end

local function reshape(counter, to)
  local kind, from = counter.kind, counter.quota
  if not kind.logs and (to.limit ~= from.limit or to.window ~= from.window or to.capacity ~= from.capacity) then
    counter.a, counter.b = kind.rescale(counter.at, counter.a, counter.b, from, to)
  end
  counter.quota, counter.dirty = to, true
  advance(counter, counter.at)
end

-- Writes what has changed, and sees to it that the key lives at least until the counter is as if never used. The
-- key's end is renewed only when it would come too early, so that most writes leave it alone.
local function save(counter)
  local needed = max(counter.quota.rest + counter.at - now, counter.last_hold)
  local ttl
  if counter.expires < now + needed then
    ttl = ttl_for(needed)
    counter.expires = now + ttl
  end
  if counter.kind.logs then
    save_log(counter)
  else
    save_hash(counter)
  end
  if ttl then
    set_end(counter.key, ttl)
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
    local cost, since, ends = unpack('<I8I8I8', holds, start + 16)
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
  change_holds(counter, load_holds(counter) .. id .. pack('<I8I8I8', cost, counter.at, ends))
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
  local cost, since = unpack('<I8I8', holds, start + 16)
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
      counter.at, counter.dirty = now, true
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
