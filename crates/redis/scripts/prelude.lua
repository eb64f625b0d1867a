-- One script does everything, so that the takes of a request are decided together; the files of this folder are
-- joined into it in the order given in `script.rs`. What it is sent and answers is described in `apply.lua`.

local call, try, pack, unpack = redis.call, redis.pcall, struct.pack, struct.unpack
local type, find, sub, concat = type, string.find, string.sub, table.concat

-- Milliseconds since the epoch: the server's own time, unless the caller says what time it is.
local now
-- How long keys live whatever they hold, or 0: as long as they need to.
local fixed_ttl

-- What was sent, and how far it has been read.
local input, place, names, key_number = ARGV[1], 1, KEYS, 0
local quotas, answers, answer_count = {}, {}, 0

-- All counters that went the long way, by key: each is read and written once, however many ask for it.
local met = {}
