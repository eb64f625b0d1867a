-- Applies groups of operations, each all or nothing, one after the other.
--
-- KEYS has one key per operation. ARGV[1] is
--   now (0: the server's), fixed ttl (0: as needed), number of quotas
--   per quota: algorithm, version, limit, window, capacity
--   per run of groups: how many there are of the same (more than one only if they are plain single takes), and the
--     number of operations of each
--   per operation: what (peek 0, take 1, hold 2, settle 3, return 4; + 8 shadow, + 16 has a request id), quota,
--     cost, then the request id, and the hold's id and ttl, the settled hold's id, or since when to return
-- and the answer
--   now
--   per operation: flags (below), remaining, reset after, retry after, and the quota if it is not the one asked for

local function read_quotas(count)
  for i = 1, count do
    local number, version, limit, window, capacity
    number, version, limit, window, capacity, place = unpack('<BI8I8I8I8', input, place)
    local kind = kinds[number] or makers[number]()
    kinds[number] = kind
    quotas[i] = quota_of(kind, version, limit, window, capacity)
  end
end

local count
now, fixed_ttl, count, place = unpack('<I8I8H', input, place)
if now == 0 then
  local time = call('TIME')
  now = time[1] * 1000 + floor(time[2] / 1000)
end
read_quotas(count)

local apply_group, save_all
local length = #input
while place <= length do
  local run, size, start = unpack('<HH', input, place)
  local what, quota, cost, after = unpack('<BHI8', input, start)
  quota = quotas[quota + 1]
  for _ = 1, run do
    local said = size == 1 and what == 1 and take_alone(names[key_number + 1], quota, cost)
    if said then
      place, key_number, answer_count = after, key_number + 1, answer_count + 1
      answers[answer_count] = said
    else
      if last_key then
        put_down()
      end
      if not apply_group then
        apply_group, save_all = long_way()
      end
      place = start
      apply_group(size)
    end
  end
end
if last_key then
  put_down()
end
if save_all then
  save_all()
end
return pack('<I8', now) .. concat(answers)
