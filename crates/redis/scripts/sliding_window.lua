-- Sliding window counter: `a` is what was consumed in the window before the one that `at` lies in, `b` in that one.

local sliding_window = {}

function sliding_window.advance(limit, window, at, a, b, to)
  local start = to - to % window
  if at >= start then
    return a, b
  elseif at >= start - window then
    return b, 0
  end
  return 0, 0
end

-- What the estimate leaves of limit * window may be inexact below zero, but then it is below zero.
function sliding_window.fits(limit, window, capacity, at, a, b, cost)
  return cost == 0 or cost <= limit and cost * window <= (limit - b) * window - a * (window - at % window)
end

function sliding_window.figures(limit, window, capacity, at, a, b)
  local left = window - at % window
  local free = (limit - b) * window - a * left
  local remaining = 0
  if free > 0 then
    remaining = free / window
    remaining = remaining - remaining % 1
  end
  if b > 0 then
    return remaining, window + left
  elseif a > 0 then
    return remaining, left
  end
  return remaining, 0
end

-- The first whole millisecond of a window at which at most `room` is left of a count from the window before.
local function settled(window, count, room)
  if count == 0 then
    return 0
  end
  return window - min(floor(room * window / count), window)
end

function sliding_window.wait(limit, window, capacity, at, a, b, cost)
  local elapsed, room = at % window, limit - cost
  if b <= room then
    return max(settled(window, a, room - b) - elapsed, 0)
  end
  return window - elapsed + settled(window, b, room)
end

function sliding_window.charge(window, a, b, cost)
  return a, b + cost
end

-- A passed window is not credited.
function sliding_window.credit(limit, window, at, a, b, cost, since)
  if same_window(window, at, since) then
    return a, max(b - cost, 0)
  end
  return a, b
end

-- When the window's length changes, all that still weighs (rounded up) becomes the present window's.
function sliding_window.rescale(at, a, b, from, to)
  if from.window ~= to.window then
    local left = from.window - at % from.window
    a, b = 0, b + ceil(a * left / from.window)
  end
  return clamp_count(to, a), clamp_count(to, b)
end

sliding_window.rest = two_windows
