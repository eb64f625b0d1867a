-- Plain takes, one per group, from small counters that nothing special is the matter with: what most calls come down
-- to. A script sets up every function it defines each time it runs, so this one defines none.
--
-- KEYS has one key per take. ARGV[1] is an array of numbers:
--   now (0: the server's), fixed ttl (0: as needed)
--   per run of takes by the same quota: how many, algorithm, quota (a hash of it), version, limit, window, capacity,
--     rest, cost
-- and the answer is one too:
--   now, and per take what the counter then holds: a, or for a sliding window a and b
-- The last of them is -1 - itself if the take was refused. What remains and until when follows from the counter, and
-- whoever asked works it out: here every figure costs time that all callers share.
-- A take that must go the long way, because its counter was shaped by another quota, is held by somebody or is ahead
-- of the clock, is not decided: its answer is false and nothing else.

local call, try, pack, unpack = redis.call, redis.pcall, cmsgpack.pack, cmsgpack.unpack
local KEYS, input = KEYS, unpack(ARGV[1])
local now, fixed_ttl = input[1], input[2]
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000 + time[2] / 1000
  now = now - now % 1
end
local answers, place, number = { now }, 3, 1

-- A counter is head, counts and tail: all but the counts is packed once, as each number that is packed costs a text.
local head, tail = pack(now), nil

-- The counter last asked for is kept at hand, so that a hot one is read and written once.
local key, decided, changed, new, ttl, at, a, b, known, held
local count, kind, quota, version, limit, window, capacity, rest, cost
local said = 1

while true do
  -- The next run; a counter at hand is put down first if it is to be seen under another quota. Quotas with the same
  -- figures have the same hash whatever their algorithm.
  count = input[place]
  local other = input[place + 1] ~= kind or input[place + 2] ~= quota
  if changed and other then
    local counts = kind == 3 and pack(a, b) or pack(a)
    if new then
      call('HSET', key, 'c', head .. counts .. tail, 'q', pack(version, limit, window, capacity))
    else
      call('HSET', key, 'c', head .. counts .. tail)
    end
    if ttl then
      call('PEXPIRE', key, ttl)
    end
    changed = false
  end
  if count == nil then
    break
  end
  if other then
    key = nil
  end
  kind, quota, version, limit, window, capacity, rest, cost =
    input[place + 1], input[place + 2], input[place + 3], input[place + 4], input[place + 5], input[place + 6],
    input[place + 7], input[place + 8]
  place = place + 9
  tail = kind == 3 and pack(quota) or pack(0, quota)
  local elapsed, epoch = now % window, now - now % rest
  local start, left = now - elapsed, window - elapsed
  -- What a take adds, and what may be there already for it to fit.
  local more, room = cost, capacity - cost
  if kind == 1 then
    more, room = cost * window, room * window
  elseif kind == 3 then
    room = room * window
  end

  for i = number, number + count - 1 do
    if KEYS[i] ~= key then
      if changed then
        local counts = kind == 3 and pack(a, b) or pack(a)
        if new then
          call('HSET', key, 'c', head .. counts .. tail, 'q', pack(version, limit, window, capacity))
        else
          call('HSET', key, 'c', head .. counts .. tail)
        end
        if ttl then
          call('PEXPIRE', key, ttl)
        end
        changed = false
      end
      key = KEYS[i]
      local state = try('HGET', key, 'c')
      -- An error is a table with `err`; a text has no such thing, and neither costs a call to ask.
      if state and not state.err then
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

    said = said + 1
    if not decided then
      answers[said] = false
    elseif kind == 3 then
      answers[said] = a
      said = said + 1
      if b * window + a * left <= room then
        b, changed = b + more, true
        answers[said] = b
      else
        answers[said] = -1 - b
      end
    elseif a <= room then
      a, changed = a + more, true
      answers[said] = a
    else
      answers[said] = -1 - a
    end
  end
  number = number + count
end
return pack(answers)
