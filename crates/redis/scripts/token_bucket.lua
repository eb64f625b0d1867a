-- Token bucket: `a` is what is missing, in units of which one request takes `window` and each millisecond pays
-- back `limit`.

local token_bucket = {}

function token_bucket.advance(limit, window, at, a, b, to)
  -- Beyond 2^53 the product is inexact, but then it is more than any debt.
  local paid = (to - at) * limit
  if paid >= a then
    return 0, 0
  end
  return a - paid, 0
end

function token_bucket.fits(limit, window, capacity, at, a, b, cost)
  return cost == 0 or cost <= capacity and a <= (capacity - cost) * window
end

function token_bucket.figures(limit, window, capacity, at, a, b)
  local remaining, reset = capacity - a / window, a / limit
  return max(remaining - remaining % 1, 0), reset + -reset % 1
end

function token_bucket.wait(limit, window, capacity, at, a, b, cost)
  return ceil((a - (capacity - cost) * window) / limit)
end

function token_bucket.charge(window, a, b, cost)
  return a + cost * window, 0
end

-- As far as waiting has not paid it back already.
function token_bucket.credit(limit, window, at, a, b, cost, since)
  local units = cost * window - max(at - since, 0) * limit
  if units > 0 then
    return max(a - units, 0), 0
  end
  return a, 0
end

-- As full as before, in proportion.
function token_bucket.rescale(at, a, b, from, to)
  return mul_div_ceil(a, to.capacity * to.window, from.capacity * from.window), 0
end

function token_bucket.rest(quota)
  return ceil(quota.capacity * quota.window / quota.limit)
end
