-- What the algorithms that count by windows share. Windows are aligned to the epoch.

local function same_window(window, at, other)
  return at - at % window == other - other % window
end

-- A count taken over from another window length, small enough to compute with.
local function clamp_count(quota, count)
  return min(count, floor((2 ^ 53 - 1) / quota.window))
end

local function two_windows(limit, window)
  return 2 * window
end
