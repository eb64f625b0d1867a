-- What most groups are: one take from a small counter that nothing special is the matter with. Decided with as little
-- as possible. The counter last asked for is kept at hand, so that a hot one is read and written once.

local last_key, last_quota, at, a, b, expires, changed, ttl

local function put_down()
  if changed then
    call('HSET', last_key, 'c', pack(
      STATE, now, a, b, expires, 0, last_quota.version, last_quota.limit, last_quota.window, last_quota.capacity
    ))
    if ttl then
      set_end(last_key, ttl)
    end
  end
  last_key = nil
end

-- Takes a counter to hand; false if it must go the long way.
local function pick_up(key, quota)
  if last_key then
    put_down()
  end
  local state = try('HGET', key, 'c')
  changed, ttl = false, nil
  if not state then
    at, a, b, expires = now, 0, 0, 0
  elseif type(state) == 'table' or #state ~= STATE_BYTES then
    return false
  else
    local held_until, version, limit, window, capacity
    at, a, b, expires, held_until, version, limit, window, capacity = unpack(STATE, state)
    if
      held_until ~= 0
      or at > now
      or version ~= quota.version
      or limit ~= quota.limit
      or window ~= quota.window
      or capacity ~= quota.capacity
    then
      return false
    end
    a, b = quota.kind.advance(limit, window, at, a, b, now)
  end
  last_key, last_quota = key, quota
  return true
end

local function take_alone(key, quota, cost)
  local kind, limit, window, capacity = quota.kind, quota.limit, quota.window, quota.capacity
  if (key ~= last_key or quota ~= last_quota) and (limit == 0 or kind.logs or met[key] or not pick_up(key, quota)) then
    return nil
  end
  local flags, retry = ALLOWED, 0
  if kind.fits(limit, window, capacity, now, a, b, cost) then
    a, b = kind.charge(window, a, b, cost)
    changed = true
    if expires < now + quota.rest then
      ttl = ttl_for(quota.rest)
      expires = now + ttl
    end
  elseif cost > capacity then
    flags = NEVER
  else
    flags, retry = AFTER, kind.wait(limit, window, capacity, now, a, b, cost)
  end
  local remaining, reset = kind.figures(limit, window, capacity, now, a, b)
  return pack('<BI8I8I8', flags, remaining, reset, retry)
end
