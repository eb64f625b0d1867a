-- Groups of any kind. The files of this folder but `takes.lua` are joined into one script in the order given in
-- `script.rs`; what it is sent and answers is described in `groups.lua`.

local call, try, pack, unpack = redis.call, redis.pcall, cmsgpack.pack, cmsgpack.unpack
local pack_bytes, unpack_bytes = struct.pack, struct.unpack
local find, sub, concat = string.find, string.sub, table.concat

-- Milliseconds since the epoch: the server's own time, unless the caller says what time it is.
local now
-- How long keys live whatever they hold, or 0: as long as they need to.
local fixed_ttl
