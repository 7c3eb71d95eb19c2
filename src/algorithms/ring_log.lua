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
-- d         the limit, infinite in a charge
-- longer    for how much longer than a units may count under a limit that goes on from the state
-- most      the most slots that can be in use: beyond, what is charged joins the newest
-- Summary   the sum that counts (double), the newest stamp, and an edge: the last stamp that has to
--           go before a denied cost is admitted, or the newest that a refund leaves (8 bytes each)
local size, first, used, base, newest_l, newest_h, total = 0, 0, 0, 0, 0, 0, 0
local oldest_l, oldest_h, oldest = 0, 0, 0
if state then
  size, first, used, base, oldest_l, oldest_h, oldest, newest_l, newest_h, total, from =
      unpack('<I4I4I4dI4I4dI4I4d', state, from)
  if used > size or first > size then
    failure, used = kDamaged, 0
  end
end
local slots_begin = slots_at
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
  local ring = ring_of(state, key, slots_begin, size, first, used, oldest_l, oldest_h, oldest)
  local gone = search(ring, nil, gone_l, gone_h)
  local _
  _, _, base = slot(ring, gone - 1)
  if gone < used then
    oldest_l, oldest_h, oldest = slot(ring, gone)
  end
  first, used = (first + gone) % size, used - gone
  counted = (total - base) % kTotals
end
if counted == 0 then
  first, used, base = 0, 0, total
end
local added, edge_l, edge_h, left = cost, newest_l, newest_h, counted
if measures then
  taken = max(0, min(taken, d - counted))
elseif operation == 0 and counted + cost > d then
  admitted = false
  left = max(counted - (d - cost), 0)
elseif operation == 2 then
  added = min(cost, kTotals - 1 - counted)
elseif operation == 3 then
  left = max(counted - cost, 0)
end
local edge = used
if left > 0 and left < counted and used > 0 then
  local ring = ring_of(state, key, slots_begin, size, first, used, oldest_l, oldest_h, oldest)
  edge = search(ring, left, base)
  if edge < used then
    edge_l, edge_h = slot(ring, edge)
  end
end
if missing then
  failure, missing = kDamaged, false
end
summaries = summaries .. pack('<dI4I4I4I4', counted, newest_l, newest_h, edge_l, edge_h)
if operation <= 2 and admitted and added > 0 then
  if counted > 0 and used < most and (b_h ~= newest_h or b_l ~= newest_l) then
    pushes = pushes or {}
    local push = {at = slots_begin, size = size, first = first, used = used,
                  slot = pack('<I4I4d', newest_l, newest_h, total)}
    pushes[#pushes + 1] = push
    if used == 0 then
      oldest_l, oldest_h, oldest = newest_l, newest_h, total
    end
    if used == size then
      first, size = 0, max(size + 1, min(most, max(8, size * 2)))
      push.new_size = size
    end
    used = used + 1
  end
  newest_l, newest_h, total = b_l, b_h, total - (kTotals - added)
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
    part_end = (newest_h + a_h) * 4294967296 + newest_l + a_l + longer
    spare = max(spare, a_h * 4294967296 + a_l)
  end
end
