-- The key's value is not this limit's as it stands: it is one within a block, or another limit's,
-- which counts as none and will be overwritten.
-- reads     value, key, head, begins, operation, now_l, now_h
-- sets      failure if it is neither; inner if it is a block; state if the value in that is this
--           limit's; known; block, until_l, until_h and admitted while the block stands
-- A block   246, the instant at which it ends (8 bytes), then the value as it would be without the
--           block; if the key has none, the first bytes of a value of the limit that blocked it
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
    -- A block goes with a value from which this limit cannot go on.
    if (state or inner == begins) and (ends_h > now_h or ends_h == now_h and ends_l > now_l) then
      known, block = state and '\3' or '\2', sub(other, 2, 9)
      until_l, until_h = ends_l, ends_h
      -- It denies what takes.
      admitted = admitted and operation > 1
    end
    other = (state or inner == begins) and '' or inner
  end
end
-- A value begins with 245. One that begins as this limit's is too short for it.
if other ~= '' and (byte(other) ~= 245 or sub(other, 1, #begins) == begins) then
  failure = kDamaged
end
