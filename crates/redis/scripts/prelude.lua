-- One script does everything, so that the takes of a request are decided together; the files of this folder are
-- joined into it in the order given in `script.rs`. What it is sent and answers is described in `apply.lua`.

local call, pack, unpack = redis.call, struct.pack, struct.unpack

-- Milliseconds since the epoch: the server's own time, unless the caller says what time it is.
local now
-- How long keys live whatever they hold, or 0: as long as they need to.
local fixed_ttl
