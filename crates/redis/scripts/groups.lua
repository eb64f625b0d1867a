-- Applies groups of operations, each all or nothing, one after the other.
--
-- KEYS has one key per operation. ARGV[1] is an array of numbers and texts:
--   now (0: the server's), fixed ttl (0: as needed), number of quotas
--   per quota: algorithm, hash, version, limit, window, capacity, rest
--   per group: number of operations
--   per operation: what (peek 0, take 1, hold 2, settle 3, return 4, charge 5; + 8 shadow, + 16 has a request id),
--     quota, cost, then the request id, and the hold's id and ttl, the settled hold's id, or since when to return
-- and the answer is an array of numbers:
--   now
--   per operation: flags (below), remaining, reset after, retry after, and the quota if it is not the one asked for

local PEEK, TAKE, HOLD, SETTLE, RETURN, CHARGE = 0, 1, 2, 3, 4, 5
local ALLOWED, HELD, AFTER, NEVER, OTHER_QUOTA, FOREIGN, FULL = 1, 2, 4, 8, 16, 32, 64

local input, place, key_number = unpack(ARGV[1]), 0, 0
local quotas, answers, said = {}, {}, 1

-- The operations of the present group.
local actions, shadows, asked, costs, ids, hold_ids, times = {}, {}, {}, {}, {}, {}, {}
local keys, found, ahead, id_names, free, may = {}, {}, {}, {}, {}, {}

-- The next thing that was sent.
local function read()
  place = place + 1
  return input[place]
end

local function read_quotas()
  for i = 1, read() do
    local kind = kinds[read()]
    quotas[i] = {
      kind = kind, hash = read(), version = read(), limit = read(), window = read(), capacity = read(), rest = read(),
    }
  end
end

local function read_group(count)
  for i = 1, count do
    local what = read()
    asked[i], costs[i], keys[i] = quotas[read() + 1], read(), KEYS[key_number + i]
    ids[i], shadows[i] = false, false
    if what >= 16 then
      ids[i], what = read(), what - 16
    end
    if what >= 8 then
      shadows[i], what = true, what - 8
    end
    actions[i] = what
    if what == HOLD then
      hold_ids[i], times[i] = read(), read()
    elseif what == SETTLE then
      hold_ids[i] = read()
    elseif what == RETURN then
      times[i] = read()
    end
  end
  key_number = key_number + count
end

local function answer(flags, remaining, reset, retry)
  answers[said + 1], answers[said + 2], answers[said + 3], answers[said + 4] = flags, remaining, reset, retry
  said = said + 4
end

local function answer_all(count, flags)
  for _ = 1, count do
    answer(flags, 0, 0, 0)
  end
end

-- What a counter says to a request of `cost`, or that it is allowed whatever the counter says.
local function report(counter, asked, cost, allowed)
  local flags, retry, ahead = 0, 0, counter.at - now
  if allowed or fits(counter, cost) then
    flags = ALLOWED
  elseif cost > counter.quota.capacity then
    flags = NEVER
  else
    flags, retry = AFTER, ahead + wait(counter, cost)
    if counter.held_until ~= 0 then
      flags = flags + HELD
    end
  end
  local remaining, reset = figures(counter)
  if reset > 0 then
    reset = reset + ahead
  end
  local quota = counter.quota
  if quota == asked then
    return answer(flags, remaining, reset, retry)
  end
  answer(flags + OTHER_QUOTA, remaining, reset, retry)
  answer(quota.version, quota.limit, quota.window, quota.capacity)
end

local function look(i)
  local counter, cost = found[i], costs[i]
  free[i] = ids[i] and cost > 0 and (replays_left(counter, ADMITTED, id_names[i]) or 0) > 0
  may[i] = free[i] or fits(counter, cost + ahead[i])
end

-- An id is remembered, or a replay used up, by what admits the request for good: a hold may yet be released.
local function commit(i)
  local counter, cost, holds = found[i], costs[i], actions[i] == HOLD
  if free[i] then
    if not holds then
      use_replay(counter, id_names[i])
    end
    return report(counter, asked[i], 0, true)
  end
  charge(counter, cost, ids[i])
  if holds then
    add_hold(counter, hold_ids[i], cost, times[i])
  elseif ids[i] then
    remember(counter, ADMITTED, id_names[i])
  end
  report(counter, asked[i], 0, true)
end

local function settle(i)
  local counter, cost = found[i], costs[i]
  local held, since = remove_hold(counter, hold_ids[i])
  if not held then
    if ids[i] and (replays_left(counter, ADMITTED, id_names[i]) or 0) > 0 then
      use_replay(counter, id_names[i])
      return report(counter, asked[i], 0, true)
    end
    return answer(NEVER, 0, 0, 0)
  end
  if cost < held then
    credit(counter, held - cost, since)
  elseif cost > held then
    local more = min(cost - held, (figures(counter)))
    if more > 0 then
      charge(counter, more, ids[i])
    end
  end
  if ids[i] and cost > 0 then
    remember(counter, ADMITTED, id_names[i])
  end
  report(counter, asked[i], 0, true)
end

local function give_back(i)
  local counter = found[i]
  if not counter.unused then
    credit(counter, costs[i], times[i])
  end
  report(counter, asked[i], 0, true)
end

-- Takes what fits, once. Also what did not fit is remembered: it must not be taken when there is room again.
local function charge_once(i)
  local counter, cost, id, name = found[i], costs[i], ids[i], id_names[i]
  if cost == 0 or id and replays_left(counter, CHARGED, name) then
    return
  end
  if asked[i].limit > 0 then
    local part = min(cost, (figures(counter)))
    if part > 0 then
      charge(counter, part, id)
    end
  end
  if not id then
    return
  end
  remember(counter, CHARGED, name)
  if not counter.unused then
    -- The key's end is seen to.
    counter.dirty = true
  elseif fixed_ttl > 0 then
    call('PEXPIRE', counter.key, fixed_ttl)
  else
    call('PEXPIRE', counter.key, MAX_ID_MEMORY + 1000)
  end
end

local function charge_all(count)
  local any = false
  for i = 1, count do
    if actions[i] == CHARGE then
      charge_once(i)
      any = true
    end
  end
  return any
end

-- Finds the counters of the group and what each would say: whether all of them can be asked, whether there is room
-- for what is to be held, and whether the group may go ahead.
local function look_at_all(count)
  local full, go_ahead = false, true
  for i = 1, count do
    local action, quota = actions[i], asked[i]
    found[i], may[i], ahead[i], id_names[i] = false, false, 0, false
    if quota.limit > 0 or action == SETTLE or action == CHARGE then
      local counter = counter_of(keys[i], quota)
      if not counter then
        return false, full, false
      end
      found[i] = counter
      for j = 1, i - 1 do
        if keys[j] == keys[i] and (actions[j] == TAKE or actions[j] == HOLD) then
          ahead[i] = ahead[i] + costs[j]
        end
      end
      if ids[i] then
        id_names[i] = id_name(action == CHARGE and CHARGED or ADMITTED, ids[i], costs[i])
      end
      if action <= HOLD then
        look(i)
      end
      full = full or (action == HOLD and #load_holds(counter) >= MAX_HOLDS * HOLD_BYTES)
    end
    if action <= HOLD and not may[i] and not shadows[i] then
      go_ahead = false
    end
  end
  return true, full, go_ahead
end

local function apply_group(count)
  read_group(count)
  local ours, full, go_ahead = look_at_all(count)
  if not ours then
    return answer_all(count, FOREIGN)
  elseif full then
    return answer_all(count, FULL)
  end
  if charge_all(count) then
    -- It was admitted before: the others go by what that leaves.
    ours, full, go_ahead = look_at_all(count)
  end
  for i = 1, count do
    local action = actions[i]
    if not found[i] or action == CHARGE and asked[i].limit == 0 then
      if action == RETURN or action == CHARGE then
        answer(ALLOWED, 0, 0, 0)
      else
        answer(NEVER, 0, 0, 0)
      end
    elseif action == SETTLE then
      settle(i)
    elseif action == RETURN then
      give_back(i)
    elseif action == CHARGE then
      report(found[i], asked[i], 0, true)
    elseif action ~= PEEK and go_ahead and may[i] then
      commit(i)
    elseif free[i] then
      report(found[i], asked[i], 0, true)
    else
      report(found[i], asked[i], costs[i] + ahead[i])
    end
  end
end

now, fixed_ttl = read(), read()
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
end
answers[1] = now
read_quotas()
while place < #input do
  apply_group(read())
end
for _, counter in pairs(met) do
  if counter and counter.dirty then
    save(counter)
  end
end
return pack(answers)
