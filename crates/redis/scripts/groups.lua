-- Groups of any kind, all or nothing.

local PEEK, TAKE, HOLD, SETTLE, RETURN = 0, 1, 2, 3, 4

-- The operations of the present group.
local actions, shadows, asked, costs, ids, hold_ids, times = {}, {}, {}, {}, {}, {}, {}
local keys, found, ahead, id_names, free, may = {}, {}, {}, {}, {}, {}

local function read_group(count)
  for i = 1, count do
    local what, quota
    what, quota, costs[i], place = unpack('<BHI8', input, place)
    asked[i], keys[i] = quotas[quota + 1], names[key_number + i]
    ids[i], shadows[i] = false, false
    if what >= 16 then
      ids[i], place = unpack('c16', input, place)
      what = what - 16
    end
    if what >= 8 then
      shadows[i], what = true, what - 8
    end
    actions[i] = what
    if what == HOLD then
      hold_ids[i], times[i], place = unpack('<c16I8', input, place)
    elseif what == SETTLE then
      hold_ids[i], place = unpack('c16', input, place)
    elseif what == RETURN then
      times[i], place = unpack('<I8', input, place)
    end
  end
  key_number = key_number + count
end

local function answer(flags, remaining, reset, retry)
  answer_count = answer_count + 1
  answers[answer_count] = pack('<BI8I8I8', flags, remaining, reset, retry)
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
  answers[answer_count] = answers[answer_count]
    .. pack('<I8I8I8I8', quota.version, quota.limit, quota.window, quota.capacity)
end

local function look(i)
  local counter, cost = found[i], costs[i]
  free[i] = ids[i] and cost > 0 and (replays_left(counter, id_names[i]) or 0) > 0
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
    remember(counter, id_names[i])
  end
  report(counter, asked[i], 0, true)
end

local function settle(i)
  local counter, cost = found[i], costs[i]
  local held, since = remove_hold(counter, hold_ids[i])
  if not held then
    if ids[i] and (replays_left(counter, id_names[i]) or 0) > 0 then
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
    remember(counter, id_names[i])
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

-- Finds the counters of the group and what each would say: whether all of them can be asked, whether there is room
-- for what is to be held, and whether the group may go ahead.
local function look_at_all(count)
  local full, go_ahead = false, true
  for i = 1, count do
    local action, quota = actions[i], asked[i]
    found[i], may[i], ahead[i], id_names[i] = false, false, 0, false
    if quota.limit > 0 or action == SETTLE then
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
        id_names[i] = id_name(ids[i], costs[i])
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
  for i = 1, count do
    local action = actions[i]
    if not found[i] then
      if action == RETURN then
        answer(ALLOWED, 0, 0, 0)
      else
        answer(NEVER, 0, 0, 0)
      end
    elseif action == SETTLE then
      settle(i)
    elseif action == RETURN then
      give_back(i)
    elseif action ~= PEEK and go_ahead and may[i] then
      commit(i)
    elseif free[i] then
      report(found[i], asked[i], 0, true)
    else
      report(found[i], asked[i], costs[i] + ahead[i])
    end
  end
end

-- Writes every counter that has changed.
local function save_all()
  for _, counter in pairs(met) do
    if counter and counter.dirty then
      save(counter)
    end
  end
end

return apply_group, save_all
