-- Token bucket: `a` is what is missing, in units of which one request takes `window` and each millisecond pays
-- back `limit`.

local token_bucket = {}

function token_bucket.advance(limit, window, at, a, b, to)
  if a > 0 and to > at then
    if to - at >= div_ceil(a, limit) then
      return 0, 0
    end
    return a - (to - at) * limit, 0
  end
  return a, 0
end

function token_bucket.fits(limit, window, capacity, at, a, b, cost)
  return cost <= capacity and a <= (capacity - cost) * window
end

function token_bucket.figures(limit, window, capacity, at, a, b)
  local remaining = floor((capacity * window - a) / window)
  if remaining < 0 then
    remaining = 0
  end
  return remaining, div_ceil(a, limit)
end

function token_bucket.wait(limit, window, capacity, at, a, b, cost)
  return div_ceil(a - (capacity - cost) * window, limit)
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

-- How long a counter takes to be as if never used, at most.
function token_bucket.rest(limit, window, capacity)
  return div_ceil(capacity * window, limit)
end
