-- What the algorithms that count by windows share. Windows are aligned to the epoch.

local function same_window(window, at, other)
  return at - at % window == other - other % window
end

-- How long a counter takes to be as if never used, at most.
local function two_windows(quota)
  return 2 * quota.window
end

-- A count taken over from another window length, small enough to compute with.
local function clamp_count(quota, count)
  return min(count, floor((2 ^ 53 - 1) / quota.window))
end
