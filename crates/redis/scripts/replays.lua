-- Request ids: the same id with the same cost is free again for a short while. What was admitted is so a few times.
-- What was charged is so however often it comes; it is kept apart, so that no number of requests keeps it from being
-- remembered.

local MAX_IDS = 1024
local MAX_REPLAYS = 3
local MAX_ID_MEMORY = 60000

local ADMITTED = { mark = 'i', queue = 'n', base = 0 }
local CHARGED = { mark = 'p', queue = 'm', base = 2 ^ 52 }

local function id_name(book, id, cost)
  return book.mark .. id .. pack_bytes('<I8', cost)
end

-- How many replays are left to an id, or nothing if it is not remembered.
local function replays_left(counter, book, name)
  local ends, left
  if counter.kind.logs then
    local score = call('ZSCORE', counter.key, name)
    if not score then
      return nil
    end
    score = -score - book.base
    ends, left = floor(score / 4), score % 4
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
local function expire_ids(key, queue)
  local ends = call('HGET', key, queue)
  if not ends then
    return 0, 0
  end
  local first, next = unpack(ends)
  while first < next do
    local number = queue .. pack_bytes('<I8', first)
    local name = call('HGET', key, number)
    local known = name and call('HGET', key, name)
    if known and unpack(known) > now then
      break
    end
    call('HDEL', key, number, name or number)
    first = first + 1
  end
  return first, next
end

-- Remembers an id, if there is room. One that is still remembered has used up its replays.
local function remember(counter, book, name)
  if replays_left(counter, book, name) then
    return
  end
  local key, ends = counter.key, now + min(counter.quota.window, MAX_ID_MEMORY)
  if counter.kind.logs then
    local base = book.base
    call('ZREMRANGEBYSCORE', key, -(base + now * 4 + 3), -(base + 1))
    if call('ZCOUNT', key, -(base + 2 ^ 52 - 1), -(base + 1)) < MAX_IDS then
      call('ZADD', key, -(base + ends * 4 + MAX_REPLAYS), name)
    end
    return
  end
  local queue = book.queue
  local first, next = expire_ids(key, queue)
  if next - first < MAX_IDS then
    call('HSET', key, name, pack(ends, MAX_REPLAYS), queue .. pack_bytes('<I8', next), name)
    next = next + 1
  end
  call('HSET', key, queue, pack(first, next))
end
