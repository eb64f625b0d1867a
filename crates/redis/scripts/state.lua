-- A small counter as a text: at, a, b, expires, held until, then the quota that shaped it: version, limit, window,
-- capacity. Short enough to be kept together with its key's other fields.

local STATE = '<I6I7I7I6I6I7I7I5I7'
local STATE_BYTES = 58

local ALLOWED, HELD, AFTER, NEVER, OTHER_QUOTA, FOREIGN, FULL = 1, 2, 4, 8, 16, 32, 64

-- Algorithms are set up when they are first asked for.
local makers = { new_token_bucket, new_fixed_window, new_sliding_window, new_sliding_log }
local kinds = {}

local function quota_of(kind, version, limit, window, capacity)
  local rest = 1
  if limit > 0 then
    rest = kind.rest(limit, window, capacity)
  end
  return { kind = kind, version = version, limit = limit, window = window, capacity = capacity, rest = rest }
end

-- How long a key is to live if it needs `needed`: longer, so that its end need not be moved with every write.
local function ttl_for(needed)
  return needed + floor(needed / 2) + 1000
end

local function set_end(key, ttl)
  if fixed_ttl > 0 then
    ttl = fixed_ttl
  end
  call('PEXPIRE', key, ttl)
end
