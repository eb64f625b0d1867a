-- Plain takes, one per group, from small counters that nothing special is the matter with: what most calls come down
-- to. A script sets up every function it defines each time it runs, so this one defines none.
--
-- KEYS has one key per take. ARGV[1] is an array of numbers:
--   now (0: the server's), fixed ttl (0: as needed)
--   per run of takes by the same quota: how many, algorithm, quota (a hash of it), version, limit, window, capacity,
--     rest, cost
-- and the answer is one too:
--   now, and per take: flags (see groups.lua), remaining, reset after, retry after
-- A take that must go the long way, because its counter was shaped by another quota, is held by somebody or is ahead
-- of the clock, is not decided: its flags are 128.

local call, try, pack, unpack, type = redis.call, redis.pcall, cmsgpack.pack, cmsgpack.unpack, type
local KEYS, input = KEYS, unpack(ARGV[1])
local now, fixed_ttl = input[1], input[2]
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000 + time[2] / 1000
  now = now - now % 1
end
local answers, place, number = { now }, 3, 1

-- The counter last asked for is kept at hand, so that a hot one is read and written once.
local key, decided, changed, new, ttl, at, a, b, known, held
local count, kind, quota, version, limit, window, capacity, rest, cost
local said = 1

while true do
  -- The next run; a counter at hand is put down first if it is to be seen under another quota.
  count = input[place]
  if changed and (count == nil or input[place + 2] ~= quota) then
    if new then
      call('HSET', key, 'c', pack(now, a, b, quota), 'q', pack(version, limit, window, capacity))
    else
      call('HSET', key, 'c', pack(now, a, b, quota))
    end
    if ttl then
      call('PEXPIRE', key, ttl)
    end
    changed = false
  end
  if count == nil then
    break
  end
  if input[place + 2] ~= quota then
    key = nil
  end
  kind, quota, version, limit, window, capacity, rest, cost =
    input[place + 1], input[place + 2], input[place + 3], input[place + 4], input[place + 5], input[place + 6],
    input[place + 7], input[place + 8]
  place = place + 9
  local unit, room = cost * window, (capacity - cost) * window
  local elapsed, epoch = now % window, now - now % rest
  local start, left = now - elapsed, window - elapsed

  for i = number, number + count - 1 do
    if KEYS[i] ~= key then
      if changed then
        if new then
          call('HSET', key, 'c', pack(now, a, b, quota), 'q', pack(version, limit, window, capacity))
        else
          call('HSET', key, 'c', pack(now, a, b, quota))
        end
        if ttl then
          call('PEXPIRE', key, ttl)
        end
        changed = false
      end
      key = KEYS[i]
      local state = try('HGET', key, 'c')
      if type(state) == 'string' then
        at, a, b, known, held = unpack(state)
        decided, new = known == quota and at <= now and not held, false
        if decided then
          if kind == 1 then
            -- Beyond 2^53 the product is inexact, but then it is more than any debt.
            local paid = (now - at) * limit
            if paid < a then
              a = a - paid
            else
              a = 0
            end
          elseif at < start then
            if kind == 3 and at >= start - window then
              a = b
            else
              a = 0
            end
            b = 0
          end
          -- The key's end is moved once in a while, not with every write; see counter.lua.
          ttl = at < epoch
        end
      else
        decided, new, ttl, a, b = state == false, true, true, 0, 0
      end
      if ttl then
        ttl = fixed_ttl > 0 and fixed_ttl or 2 * rest + 1000
      end
    end

    local flags, remaining, reset, retry = 128, 0, 0, 0
    if decided then
      flags = 1
      if kind == 1 then
        if a <= room then
          a, changed = a + unit, true
        elseif cost > capacity then
          flags = 8
        else
          flags, retry = 4, (a - room) / limit
          retry = retry + -retry % 1
        end
        remaining, reset = capacity - a / window, a / limit
        remaining, reset = remaining - remaining % 1, reset + -reset % 1
      elseif kind == 2 then
        if a + cost <= limit then
          a, changed = a + cost, true
        elseif cost > capacity then
          flags = 8
        else
          flags, retry = 4, left
        end
        if a < limit then
          remaining = limit - a
        end
        if a > 0 then
          reset = left
        end
      else
        if b * window + a * left <= room then
          b, changed = b + cost, true
        elseif cost > capacity then
          flags = 8
        else
          flags = 4
          -- The first whole millisecond of a window at which little enough is left of the window before.
          local count, base, free = a, -elapsed, limit - cost - b
          if free < 0 then
            count, base, free = b, left, limit - cost
          end
          local gone = free * window / count
          gone = gone - gone % 1
          if gone < window then
            retry = base + window - gone
          else
            retry = base
          end
          if retry < 0 then
            retry = 0
          end
        end
        local free = (limit - b) * window - a * left
        if free > 0 then
          remaining = free / window
          remaining = remaining - remaining % 1
        end
        if b > 0 then
          reset = window + left
        elseif a > 0 then
          reset = left
        end
      end
    end
    answers[said + 1], answers[said + 2], answers[said + 3], answers[said + 4] = flags, remaining, reset, retry
    said = said + 4
  end
  number = number + count
end
return pack(answers)
