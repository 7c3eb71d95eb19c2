-- Sets `fault` where `state` is neither empty nor a value that this script has written, for this or
-- another limit.
if state.err then
  fault = state.err
elseif state ~= '' then
  local widths = {t = 1, l = 1, f = 9, a = 9, c = 9, g = 9, w = 17}
  local states = {t = 8, l = 8, f = 16, a = 16, c = 24, g = 52, w = 52}
  local value = call('GET', KEYS[place])
  local mark, count = string.byte(value, 1, 2)
  local letters_at, rest, rings = 3, #value - 10, false
  if mark ~= 245 or (count or 0) == 0 then
    fault = kDamaged
  end
  for _ = 1, fault and 0 or count do
    local letter = sub(value, letters_at, letters_at)
    if not widths[letter] then
      fault = kDamaged
      break
    end
    rings = rings or states[letter] == 52
    letters_at, rest = letters_at + widths[letter], rest - widths[letter] - states[letter]
  end
  if rest ~= 0 and not (rings and rest > 0 and rest % 16 == 0) then
    fault = kDamaged
  end
end
