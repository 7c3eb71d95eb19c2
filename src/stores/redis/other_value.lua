-- A key that does not hold a value of this limit as it stands: it holds nothing, what this script
-- has written for another limit, or a value within a block. Sets `fault` where it is neither.
--
-- A block   246, the instant at which it ends (8 bytes), then the value as it would be without, if
--           there is one
local value = state
state, out[n] = nil, '\0'
if value ~= '' then
  local flags, whole_value = n, partly == 0
  if value.err then
    fault, value = value.err, ''
  elseif string.byte(value) == 246 then
    value = whole_value and value or call('GET', KEYS[place])
    whole_value = true
    if #value < 9 or string.byte(value, 9) >= 128 then
      fault, value = kDamaged, ''
    else
      local ends_l, ends_h = unpack('<I4I4', value, 2)
      inner = sub(value, 10)
      -- It goes with a value from which this limit cannot go on; around nothing it stands.
      local stands = inner == '' or #inner >= head and sub(inner, 1, #begins) == begins
      if stands and (ends_h > now_h or ends_h == now_h and ends_l > now_l) then
        out[n], n = '\8', n + 1
        out[n] = sub(value, 2, 9)
        -- A block denies what takes; a reset ends it.
        admitted = admitted and operation ~= 1
        if operation ~= 5 then
          until_l, until_h = ends_l, ends_h
        end
      end
      value = inner
    end
    if #value >= head and sub(value, 1, #begins) == begins then
      state, value = value, ''
      out[flags] = out[flags] == '\8' and '\10' or '\2'
      if answers == 1 then
        n = n + 1
        out[n] = sub(state, 1, head)
      end
    end
  end
  if not fault and value ~= '' then
    local widths = {t = 1, l = 1, f = 9, a = 9, c = 9, p = 1, g = 9, w = 17}
    local states = {t = 8, l = 8, f = 16, a = 16, c = 24, p = 0, g = 52, w = 52}
    value = whole_value and value or call('GET', KEYS[place])
    local mark, count = string.byte(value, 1, 2)
    local letters_at, rest, slots = 3, #value - 10, false
    if mark ~= 245 or (count or 0) == 0 then
      fault = kDamaged
    end
    for _ = 1, fault and 0 or count do
      local letter = sub(value, letters_at, letters_at)
      if not widths[letter] then
        fault = kDamaged
        break
      end
      slots = slots or letter == 'p' or letter == 'g' or letter == 'w'
      letters_at, rest = letters_at + widths[letter], rest - widths[letter] - states[letter]
    end
    if rest ~= 0 and not (slots and rest > 0 and rest % 16 == 0) then
      fault = kDamaged
    end
  end
end
