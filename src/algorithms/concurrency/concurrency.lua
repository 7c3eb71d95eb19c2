-- concurrency: permits, in the order in which they lapse. They are written anew as a whole.
--
-- A slot    when the permit lapses, its id (8 bytes each)
-- a         the lease
-- b         the id of the permit that is asked about
-- c         the cost
-- d         how many permits there are
-- Answers   of the permits that are held afterwards: how many there are (double), when there is
--           room for another where all are held, when the last lapses (8 bytes each)
local size = state and (#state - head) / 16 or 0
local lapse_l, lapse_h = 0, 0
slots_at = head + size * 16
if size ~= ceil(size) then
  fault, size = kDamaged, 0
elseif size > 0 then
  lapse_l, lapse_h = unpack('<I4I4', state, head + 1)
end
local lapsed = search({state, '', head, size, 0, size, lapse_l, lapse_h, 0}, nil, now_l, now_h)
permits = size > 0 and sub(state, head + lapsed * 16 + 1) or ''
local count, id, changed = size - lapsed, pack('<I4I4', b_l, b_h), false
if operation >= 7 then
  local found = string.find(permits, id, 1, true)
  while found and found % 16 ~= 9 do
    found = string.find(permits, id, found + 1, true)
  end
  if found then
    freed = operation == 8 and count >= d
    permits = sub(permits, 1, found - 9) .. sub(permits, found + 8)
    count, changed = count - 1, true
  else
    admitted = false
  end
elseif operation == 1 then
  changed = admitted and c == 1 and count < d
  admitted = changed
end
if changed and operation ~= 8 then
  lapse_l, lapse_h = now_l + a_l, now_h + a_h
  if lapse_l >= 4294967296 then
    lapse_l, lapse_h = lapse_l - 4294967296, lapse_h + 1
  end
  -- Leases may differ, and clocks be set back: most often it is the last nevertheless.
  local behind_l, behind_h, place_of_it = 0, 0, count
  if count > 0 then
    behind_l, behind_h = unpack('<I4I4', permits, count * 16 - 15)
  end
  if behind_h > lapse_h or behind_h == lapse_h and behind_l > lapse_l then
    behind_l, behind_h = unpack('<I4I4', permits)
    place_of_it = search({permits, '', 0, count, 0, count, behind_l, behind_h, 0}, nil, lapse_l,
                         lapse_h)
  end
  permits = sub(permits, 1, place_of_it * 16) .. pack('<I4I4', lapse_l, lapse_h) .. id ..
            sub(permits, place_of_it * 16 + 1)
  count = count + 1
end
local room_l, room_h, last_l, last_h = 0, 0, 0, 0
if count > 0 then
  last_l, last_h = unpack('<I4I4', permits, count * 16 - 15)
  expiry = last_h * 4294967296 + last_l
  if count >= d then
    room_l, room_h = unpack('<I4I4', permits, (count - d) * 16 + 1)
  end
end
-- Its answer is made of what follows alone, also where there was nothing before.
out[unit] = (out[unit] == '\8' or out[unit] == '\10') and '\10' or '\2'
n = n + 1
out[n] = pack('<dI4I4I4I4', count, room_l, room_h, last_l, last_h)
if changed then
  part, part_end, expiry = '', expiry, 0
end
