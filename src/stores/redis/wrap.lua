-- Puts a value, as it is once all else is written, within the block that stands.
-- reads     key, space, state, inner, operation, until_l, until_h, expiry, now, given_ms, skew_ms
-- sets      failure: what a server says that refuses
local wrapped = ARGV[space]
if operation ~= 4 then
  wrapped = call('GET', key) or wrapped
elseif state then
  wrapped = inner or call('GET', key)
end
local ends = max(until_h * 4294967296 + until_l, expiry)
failure = pcall('SET', key, '\246' .. pack('<I4I4', until_l, until_h) .. wrapped, 'PX',
                given_ms > 0 and given_ms or ceil((ends - now) / 1000000) + 1 + skew_ms).err
