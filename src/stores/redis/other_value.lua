-- The key's value is not this limit's as it stands: it is one within a block, or another limit's,
-- which counts as none and will be overwritten. Sets `failure` where it is neither.
--
-- A block   246, the instant at which it ends (8 bytes), then the value as it would be without the
--           block, if there is one
local other = value.err and '' or call('GET', key)
failure = value.err or failure
if byte(other) == 246 then
  if #other < 9 or byte(other, 9) >= 128 then
    failure, other = kDamaged, ''
  else
    local ends_l, ends_h = unpack('<I4I4', other, 2)
    inner = sub(other, 10)
    if #inner >= head and sub(inner, 1, #begins) == begins then
      state, known = inner, '\1'
    end
    -- A block goes with a value from which this limit cannot go on; around nothing it stands.
    if (state or inner == '') and (ends_h > now_h or ends_h == now_h and ends_l > now_l) then
      known, block = state and '\3' or '\2', sub(other, 2, 9)
      until_l, until_h = ends_l, ends_h
      -- It denies what takes.
      admitted = admitted and operation > 1
    end
    other = state and '' or inner
  end
end
if other ~= '' then
  -- Another limit's value has a head that fits its letters, and whole slots if it has any.
  local widths = {t = 1, l = 1, f = 9, a = 9, c = 9, p = 1, g = 9, w = 17}
  local state_bytes = {t = 8, l = 8, f = 16, a = 16, c = 24, p = 0, g = 52, w = 52}
  local mark, count = byte(other, 1, 2)
  local letter_at, rest, slots = 3, #other - 10, false
  if mark ~= 245 or (count or 0) == 0 then
    failure, count = kDamaged, 0
  end
  for _ = 1, count do
    local letter = sub(other, letter_at, letter_at)
    if not widths[letter] then
      failure = kDamaged
      break
    end
    slots = slots or letter == 'p' or letter == 'g' or letter == 'w'
    letter_at, rest = letter_at + widths[letter], rest - widths[letter] - state_bytes[letter]
  end
  if rest ~= 0 and not (slots and rest > 0 and rest % 16 == 0) then
    failure = kDamaged
  end
end
