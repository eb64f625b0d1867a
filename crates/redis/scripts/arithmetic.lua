-- Whole numbers only, none above 2^53: a Lua number is exact up to there, and so are the floor and the ceiling of a
-- quotient. They are written `x - x % 1` and `x + -x % 1`, which costs a fraction of a call.

local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min

-- a * b / c rounded up for a <= c. The product need not fit into a number: it is built bit by bit of b, as
-- quotient * c + remainder.
local function mul_div_ceil(a, b, c)
  local whole, part = floor(a / c), a % c
  local quotient, remainder, bit = 0, 0, 2 ^ 52
  while bit >= 1 do
    quotient = quotient * 2
    if remainder >= c - remainder then
      quotient, remainder = quotient + 1, remainder - (c - remainder)
    else
      remainder = remainder * 2
    end
    if b >= bit then
      b, quotient = b - bit, quotient + whole
      if remainder >= c - part then
        quotient, remainder = quotient + 1, remainder - (c - part)
      else
        remainder = remainder + part
      end
    end
    bit = bit / 2
  end
  if remainder > 0 then
    return quotient + 1
  end
  return quotient
end
