-- concurrency: permits, in the order in which they expire. They are written anew as a whole.
--
-- A slot    when the permit expires, its id (8 bytes each)
-- a         the lease
-- b         the id of the permit that is asked about
-- d         how many permits there are
-- Summary   of the permits that are held afterwards: how many there are (double), when there is
--           room for another where all are held, when the last expires (8 bytes each)
local size = state and (#state - head) / 16 or 0
local ends_l, ends_h = 0, 0
slots_at = head + size * 16
if size ~= ceil(size) then
  failure, size = kDamaged, 0
elseif size > 0 then
  ends_l, ends_h = unpack('<I4I4', state, head + 1)
end
local held = ring_of(state or '', key, head, size, 0, size, ends_l, ends_h, 0)
local expired = search(held, nil, now_l, now_h)
permits = size > 0 and sub(state, head + expired * 16 + 1) or ''
local count, id, changed = size - expired, pack('<I4I4', b_l, b_h), false
if operation == 6 or operation == 7 then
  local found = string.find(permits, id, 1, true)
  while found and found % 16 ~= 9 do
    found = string.find(permits, id, found + 1, true)
  end
  if found then
    freed = operation == 7 and count >= d
    permits = sub(permits, 1, found - 9) .. sub(permits, found + 8)
    count, changed = count - 1, true
  else
    admitted = false
  end
elseif operation == 0 then
  changed = admitted and cost == 1 and count < d
  admitted = changed
end
if changed and operation ~= 7 then
  ends_l, ends_h = now_l + a_l, now_h + a_h
  if ends_l >= 4294967296 then
    ends_l, ends_h = ends_l - 4294967296, ends_h + 1
  end
  -- Leases may differ, and clocks be set back: most often it is the last nevertheless.
  local before_l, before_h, place = 0, 0, count
  if count > 0 then
    before_l, before_h = unpack('<I4I4', permits, count * 16 - 15)
  end
  if before_h > ends_h or before_h == ends_h and before_l > ends_l then
    before_l, before_h = unpack('<I4I4', permits)
    held = ring_of(permits, key, 0, count, 0, count, before_l, before_h, 0)
    place = search(held, nil, ends_l, ends_h)
  end
  permits = sub(permits, 1, place * 16) .. pack('<I4I4', ends_l, ends_h) .. id ..
            sub(permits, place * 16 + 1)
  count = count + 1
end
local room_l, room_h, last_l, last_h = 0, 0, 0, 0
if count > 0 then
  last_l, last_h = unpack('<I4I4', permits, count * 16 - 15)
  if count >= d then
    room_l, room_h = unpack('<I4I4', permits, (count - d) * 16 + 1)
  end
end
summaries = pack('<dI4I4I4I4', count, room_l, room_h, last_l, last_h)
if operation == 4 then
  -- A block leaves them as they are: by a clock that is behind, those that have expired count.
  permits = nil
elseif changed then
  part, part_end = '', last_h * 4294967296 + last_l
end
