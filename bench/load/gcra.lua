-- A GCRA limiter as one writes it for Redis when speed matters: the state is one string, the
-- theoretical arrival time in microseconds; one read, and one write where the request is admitted.
--
-- KEYS[1]  the key
-- ARGV     burst, count, period in seconds, and now in microseconds since the Unix epoch; without
--          that the server's clock is asked, as CL.THROTTLE does, at about 1 us
-- Returns  limited (0 or 1), limit, remaining, retry_after and reset_after in seconds, rounded up;
--          retry_after is -1 when admitted.
local capacity = ARGV[1] + 1
local interval = math.ceil(ARGV[3] * 1000000 / ARGV[2])
local span = capacity * interval
local now = tonumber(ARGV[4])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end

local arrival = tonumber(redis.call('GET', KEYS[1]) or now)
if arrival < now then arrival = now end
local after = arrival + interval
local excess = after - span - now
if excess > 0 then
  return {1, capacity, 0, math.ceil(excess / 1000000), math.ceil((arrival - now) / 1000000)}
end
redis.call('SET', KEYS[1], after, 'PX', math.ceil((after - now) / 1000))
return {0, capacity, math.floor((span - (after - now)) / interval), -1,
        math.ceil((after - now) / 1000000)}
