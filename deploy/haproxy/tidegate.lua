-- Asks Tidegate whether a request may go ahead; see haproxy.cfg.

-- What Tidegate hears about the client: headers that haproxy.cfg has set or removed. A rule that looks at
-- another header needs its name here.
local CARRIED = { "x-forwarded-for", "x-user-id", "x-tenant-id", "x-api-key", "x-tier", "x-plan" }

-- What the client hears about its limits when it may go ahead, and the variables that carry it.
local TOLD = {
    ["x-ratelimit-limit"] = "txn.tidegate_limit",
    ["x-ratelimit-remaining"] = "txn.tidegate_remaining",
    ["x-ratelimit-reset"] = "txn.tidegate_reset",
    ["x-ratelimit-status"] = "txn.tidegate_status",
}

-- What it hears when it may not.
local REFUSAL = {
    "content-type", "retry-after", "x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset",
    "ratelimit", "ratelimit-policy",
}

-- What HAProxy says when Tidegate cannot be reached or is too slow.
local AWAY = { [502] = true, [503] = true, [504] = true }

local function first(headers, name)
    return headers[name] and headers[name][0]
end

local function question(txn)
    local received = txn.http:req_get_headers()
    local headers = {
        ["x-original-method"] = { txn.f:method() },
        ["x-original-uri"] = { txn.f:pathq() },
    }
    for _, name in ipairs(CARRIED) do
        local value = first(received, name)
        if value then
            headers[name] = { value }
        end
    end
    return headers
end

local function refuse(txn, answer)
    local reply = txn:reply()
    reply:set_status(answer.status, answer.reason)
    for _, name in ipairs(REFUSAL) do
        local value = first(answer.headers, name)
        if value then
            reply:add_header(name, value)
        end
    end
    reply:set_body(answer.body or "")
    txn:done(reply)
end

core.register_action("tidegate", { "http-req" }, function(txn, door)
    local answer = core.httpclient():get({
        url = "http://tidegate/v1/authorize",
        dst = door,
        headers = question(txn),
        -- Longer than the listener takes to give up.
        timeout = 4000,
    })
    if not first(answer.headers or {}, "x-tidegate-answered") then
        -- Anything else, such as a question that is too long for HAProxy, may be of the client's making.
        if AWAY[answer.status] then
            txn:set_var("txn.tidegate_status", "disabled")
            txn:set_var("txn.tidegate", "away")
        end
    elseif answer.status == 200 then
        for name, variable in pairs(TOLD) do
            local value = first(answer.headers, name)
            if value then
                txn:set_var(variable, value)
            end
        end
        txn:set_var("txn.tidegate", "pass")
    else
        refuse(txn, answer)
    end
end, 1)
