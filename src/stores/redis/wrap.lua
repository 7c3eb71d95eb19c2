-- Puts a value, as it is once all else is written, within the block that stands.
local value = ''
if operation ~= 6 then
  value = call('GET', KEYS[place]) or ''
elseif state then
  value = inner or call('GET', KEYS[place])
end
local ends = max(until_h * 4294967296 + until_l, expiry)
local reply = pcall('SET', KEYS[place], '\246' .. pack('<I4I4', until_l, until_h) .. value, 'PX',
                    max(least_ms, ceil((ends - now) / 1000000) + 1 + skew_ms))
fault = reply.err
held[place] = nil
