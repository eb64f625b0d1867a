-- Sliding log: a sorted set with one member per request, scored by its millisecond. `a` is the sum of their costs,
-- `b` the newest score, `costly` whether any cost more than 1. Unlike the others it cannot be worked out from a few
-- numbers, so its functions take the counter itself.

local sliding_log = { logs = true }

-- Since when that is given back which was consumed last.
local LATEST = 2 ^ 53

-- Members are the request's id if it has one, its cost, and a number that makes them unique.
local function cost_of(member)
  return (unpack_bytes('<I8', member, #member - 15))
end

local function add_cost_of(members)
  local sum = 0
  for i = 1, #members do
    sum = sum + cost_of(members[i])
  end
  return sum
end

function sliding_log.advance(counter, at)
  counter.at = at
  local expired = at - counter.quota.window
  if counter.a == 0 or expired < 0 then
    return
  end
  local key = counter.key
  if counter.b <= expired then
    call('ZREMRANGEBYSCORE', key, 0, '+inf')
    counter.a, counter.costly, counter.dirty = 0, false, true
  elseif counter.costly then
    local gone = add_cost_of(call('ZRANGEBYSCORE', key, 0, expired))
    if gone > 0 then
      call('ZREMRANGEBYSCORE', key, 0, expired)
      counter.a, counter.dirty = counter.a - gone, true
    end
  else
    local gone = call('ZREMRANGEBYSCORE', key, 0, expired)
    if gone > 0 then
      counter.a, counter.dirty = counter.a - gone, true
    end
  end
end

-- A log that is too far ahead of the clock moves back as a whole.
function sliding_log.rebase(counter, at)
  local back = counter.at - at
  local log = call('ZRANGEBYSCORE', counter.key, 0, '+inf', 'WITHSCORES')
  for i = 1, #log, 2 do
    call('ZADD', counter.key, max(log[i + 1] - back, 0), log[i])
  end
  counter.b = max(counter.b - back, 0)
end

function sliding_log.fits(counter, cost)
  return cost == 0 or cost <= counter.quota.limit - counter.a
end

function sliding_log.figures(counter)
  local quota = counter.quota
  if counter.a == 0 then
    return quota.limit, 0
  end
  return max(quota.limit - counter.a, 0), counter.b + quota.window - counter.at
end

-- When enough of the oldest have expired.
function sliding_log.wait(counter, cost)
  local quota, key = counter.quota, counter.key
  local too_much, score = counter.a + cost - quota.limit, counter.at - quota.window
  if counter.costly then
    local start = 0
    repeat
      local log = call('ZRANGEBYSCORE', key, 0, '+inf', 'WITHSCORES', 'LIMIT', start, 100)
      for i = 1, #log, 2 do
        too_much, score = too_much - cost_of(log[i]), tonumber(log[i + 1])
        if too_much <= 0 then
          break
        end
      end
      start = start + 100
    until too_much <= 0 or #log == 0
  else
    local last = call('ZRANGEBYSCORE', key, 0, '+inf', 'WITHSCORES', 'LIMIT', too_much - 1, 1)
    score = tonumber(last[2]) or score
  end
  return score + quota.window - counter.at
end

function sliding_log.charge(counter, cost, id)
  counter.a, counter.b, counter.serial = counter.a + cost, counter.at, counter.serial + 1
  counter.costly = counter.costly or cost > 1
  call('ZADD', counter.key, counter.at, (id or '') .. pack_bytes('<I8I8', cost, counter.serial))
end

-- Gives back up to `cost` of what was consumed at a time; answers with what is left of it.
local function give_back_at(counter, score, cost)
  local key = counter.key
  for _, member in ipairs(call('ZRANGEBYSCORE', key, score, score)) do
    local logged = cost_of(member)
    local back = min(logged, cost)
    call('ZREM', key, member)
    if back < logged then
      local rest = #member - 16
      call('ZADD', key, score, sub(member, 1, rest) .. pack_bytes('<I8', logged - back) .. sub(member, rest + 9))
    end
    counter.a, cost = counter.a - back, cost - back
    if cost == 0 then
      break
    end
  end
  return cost
end

-- Takes back what was logged at `since`, or whatever was logged last.
function sliding_log.credit(counter, cost, since)
  if since + counter.quota.window <= counter.at then
    return
  end
  local key = counter.key
  if since == LATEST then
    while cost > 0 do
      local score = tonumber(call('ZREVRANGE', key, 0, 0, 'WITHSCORES')[2] or -1)
      if score < 0 then
        break
      end
      cost = give_back_at(counter, score, cost)
    end
  else
    local first = call('ZRANGEBYSCORE', key, since, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
    if #first == 0 then
      return
    end
    give_back_at(counter, tonumber(first[2]), cost)
  end
  -- Nothing at all is left of a log that this call has begun.
  local newest = call('ZREVRANGE', key, 0, 0, 'WITHSCORES')
  counter.b = max(tonumber(newest[2] or 0), 0)
end

sliding_log.rest = two_windows
