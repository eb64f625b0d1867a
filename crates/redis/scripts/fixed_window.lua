-- Fixed window: `a` is what was consumed in the window that `at` lies in. Windows are aligned to the epoch.

local fixed_window = {}

function fixed_window.advance(limit, window, at, a, b, to)
  if at < to - to % window then
    return 0, 0
  end
  return a, 0
end

function fixed_window.fits(limit, window, capacity, at, a, b, cost)
  return cost == 0 or cost <= limit - a
end

function fixed_window.figures(limit, window, capacity, at, a, b)
  if a == 0 then
    return limit, 0
  end
  local remaining = limit - a
  if remaining < 0 then
    remaining = 0
  end
  return remaining, window - at % window
end

function fixed_window.wait(limit, window, capacity, at)
  return window - at % window
end

function fixed_window.charge(window, a, b, cost)
  return a + cost, 0
end

-- A passed window is not credited.
function fixed_window.credit(limit, window, at, a, b, cost, since)
  if same_window(window, at, since) then
    return max(a - cost, 0), 0
  end
  return a, 0
end

function fixed_window.rescale(at, a)
  return a, 0
end

fixed_window.rest = two_windows
