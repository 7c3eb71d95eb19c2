-- What wrk sends: one request for each key, drawn at random. Arguments: the kind of request, the
-- number of keys, and how many checks a body has. Prints the number of requests that were answered,
-- and of those that failed.
local function body_of(key, checks, keys)
  local one = '{"limit": "api", "key": "key-%d"}'
  if checks == 1 then return one:format(key) end
  local all = {}
  for i = 1, checks do all[i] = one:format((key + i) % keys) end
  return '{"checks": [' .. table.concat(all, ", ") .. "]}"
end

local requests = {}

function init(arguments)
  local kind, keys, checks = arguments[1], tonumber(arguments[2]), tonumber(arguments[3])
  for key = 1, keys do
    if kind == "check" then
      local headers = { ["Content-Type"] = "application/json" }
      requests[key] = wrk.format("POST", "/v1/check", headers, body_of(key, checks, keys))
    else
      requests[key] = wrk.format("GET", ("/%s?limit=api&key=key-%d"):format(kind, key))
    end
  end
end

function request() return requests[math.random(#requests)] end

function done(summary)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  print("requests " .. summary.requests .. " failed " .. failed)
end
