-- Admitted request ids: the same id with the same cost is free again a few times for a short while.

local MAX_IDS = 1024
local MAX_REPLAYS = 3
local MAX_ID_MEMORY = 60000

local function id_name(id, cost)
  return 'i' .. id .. pack_bytes('<I8', cost)
end

-- How many replays are left to an id, or nothing if it is not remembered.
local function replays_left(counter, name)
  local ends, left
  if counter.kind.logs then
    local score = call('ZSCORE', counter.key, name)
    if not score then
      return nil
    end
    ends, left = floor(-score / 4), -score % 4
  else
    local known = call('HGET', counter.key, name)
    if not known then
      return nil
    end
    ends, left = unpack(known)
  end
  if ends <= now then
    return nil
  end
  return left
end

local function use_replay(counter, name)
  if counter.kind.logs then
    call('ZINCRBY', counter.key, 1, name)
  else
    local ends, left = unpack(call('HGET', counter.key, name))
    call('HSET', counter.key, name, pack(ends, left - 1))
  end
end

-- Forgets the ids at the head of the queue that are over; answers with the queue.
local function expire_ids(key)
  local queue = call('HGET', key, 'n')
  if not queue then
    return 0, 0
  end
  local first, next = unpack(queue)
  while first < next do
    local number = 'n' .. pack_bytes('<I8', first)
    local name = call('HGET', key, number)
    local known = name and call('HGET', key, name)
    if known and unpack(known) > now then
      break
    end
    call('HDEL', key, number, name or 'n' .. number)
    first = first + 1
  end
  return first, next
end

-- Remembers an admission, if there is room. An id that is still remembered has used up its replays.
local function remember(counter, name)
  if replays_left(counter, name) then
    return
  end
  local key, ends = counter.key, now + min(counter.quota.window, MAX_ID_MEMORY)
  if counter.kind.logs then
    call('ZREMRANGEBYSCORE', key, -(now * 4 + 3), -1)
    if call('ZCOUNT', key, HEAD + 1, -1) < MAX_IDS then
      call('ZADD', key, -(ends * 4 + MAX_REPLAYS), name)
    end
    return
  end
  local first, next = expire_ids(key)
  if next - first < MAX_IDS then
    call('HSET', key, name, pack(ends, MAX_REPLAYS), 'n' .. pack_bytes('<I8', next), name)
    next = next + 1
  end
  call('HSET', key, 'n', pack(first, next))
end
