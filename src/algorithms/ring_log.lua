-- sliding_log and sliding_window: a ring of stamps. The newest one stands in the head, those before
-- it in slots behind all heads, so that what comes at one stamp costs one short write.
--
-- State     slots there are, the oldest one's place, how many are used (4 bytes each), the total
--           before the oldest (double), the oldest slot again, which most questions are about, and
--           the newest stamp (8 bytes) with its total (double)
-- A slot    a stamp (8 bytes), the total with it (double)
-- Totals count every admitted unit, modulo 2^53: the units between two are one subtraction.
-- a         how long a unit counts
-- b         the stamp of what is taken now
-- c         the cost
-- d         the sum up to which the cost is admitted: any, where it is charged
-- most      the most slots that can be in use: beyond, what is charged joins the newest
-- Answers   the sum that counts (double), the newest stamp, and an edge: the last stamp that has to
--           go before a denied cost is admitted, or the newest that a refund leaves (8 bytes each)
local size, first, used, base, newest_l, newest_h, total = 0, 0, 0, 0, 0, 0, 0
local oldest_l, oldest_h, oldest = 0, 0, 0
if state then
  size, first, used, base, oldest_l, oldest_h, oldest, newest_l, newest_h, total, expiry, from =
      unpack('<I4I4I4dI4I4dI4I4dd', state, from)
  from = from - 8
  if used > size or first > size then
    fault, used = kDamaged, 0
  end
end
local ring = {state, KEYS[place], slots_at, size, first, used, oldest_l, oldest_h, oldest, false,
              false, false}
slots_at = slots_at + size * 16
local counted = (total - base) % kTotals
local judged_l, judged_h = now_l, now_h
if counted > 0 and (newest_h > now_h or newest_h == now_h and newest_l > now_l) then
  judged_l, judged_h = newest_l, newest_h
  b_l, b_h = newest_l, newest_h
end
local gone_l, gone_h = judged_l - a_l, judged_h - a_h
if gone_l < 0 then
  gone_l, gone_h = gone_l + 4294967296, gone_h - 1
end
if newest_h < gone_h or newest_h == gone_h and newest_l <= gone_l then
  counted = 0
elseif counted > 0 and used > 0 and
    (oldest_h < gone_h or oldest_h == gone_h and oldest_l <= gone_l) then
  local gone = search(ring, nil, gone_l, gone_h)
  local _
  _, _, base = slot(ring, gone - 1)
  if gone < used then
    oldest_l, oldest_h, oldest = slot(ring, gone)
  end
  first, used = (first + gone) % size, used - gone
  counted = (total - base) % kTotals
  ring[5], ring[6], ring[7], ring[8], ring[9] = first, used, oldest_l, oldest_h, oldest
end
if counted == 0 then
  first, used, base = 0, 0, total
end
local edge_l, edge_h, left = newest_l, newest_h, counted
if operation == 1 and counted > d then
  admitted = false
  left = max(counted - d, 0)
elseif operation == 2 then
  c = min(c, kTotals - 1 - counted)
elseif operation == 3 then
  left = max(counted - c, 0)
end
local edge = used
if left > 0 and left < counted and used > 0 then
  edge = search(ring, left, base)
  if edge < used then
    edge_l, edge_h = slot(ring, edge)
  end
end
if ring[12] then
  fault = kDamaged
end
if state then
  n = n + 1
  out[n] = pack('<dI4I4I4I4', counted, newest_l, newest_h, edge_l, edge_h)
end
if operation <= 2 and admitted and c > 0 then
  if counted > 0 and used < most and (b_h ~= newest_h or b_l ~= newest_l) then
    ring[10] = pack('<I4I4d', newest_l, newest_h, total)
    if used == 0 then
      oldest_l, oldest_h, oldest = newest_l, newest_h, total
    end
    if used == size then
      first, size = 0, max(size + 1, min(most, max(8, size * 2)))
      ring[11] = size
    end
    used = used + 1
    pushes = pushes or {}
    pushes[#pushes + 1] = ring
  end
  newest_l, newest_h, total = b_l, b_h, total - (kTotals - c)
elseif operation == 3 then
  if edge < used then
    used = edge
  end
  newest_l, newest_h, total = edge_l, edge_h, base - (kTotals - left)
end
if total < 0 then
  total = total + kTotals
end
if operation <= 3 then
  part = pack('<I4I4I4dI4I4dI4I4d', size, first, used, base, oldest_l, oldest_h, oldest,
              newest_l, newest_h, total)
  if operation <= 2 or left > 0 then
    part_end = (newest_h + a_h) * 4294967296 + newest_l + a_l
    spare = max(spare, a_h * 4294967296 + a_l)
  end
end
