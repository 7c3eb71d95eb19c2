-- fixed_window: the window that something was last admitted in, and how much.
--
-- State     start (8 bytes), count (double)
-- a         the window's length
-- b         a start of a window, most often that of now; 2^64 - 1 where a window starts with the
--           request that opens it
-- d         the limit, infinite in a charge
local start_l, start_h, count = 0, 0, 0
if state then
  start_l, start_h, count, from = unpack('<I4I4d', state, from)
end
local end_l, end_h = start_l + a_l, start_h + a_h
if end_l >= 4294967296 then
  end_l, end_h = end_l - 4294967296, end_h + 1
end
if count <= 0 or now_h > end_h or now_h == end_h and now_l >= end_l then
  if b_h == 4294967295 then
    start_l, start_h = now_l, now_h
  else
    start_l, start_h = align(now_l, now_h, b_l, b_h, a_l, a_h)
  end
  end_l, end_h, count = start_l + a_l, start_h + a_h, 0
end
if measures then
  taken = max(0, min(taken, d - count))
elseif operation <= 2 then
  count = count + cost
  if count > d then
    admitted = false
  else
    part = pack('<I4I4d', start_l, start_h, min(count, kTotals - 1))
    part_end = end_h * 4294967296 + end_l
  end
elseif operation == 3 then
  count = max(0, count - cost)
  part = pack('<I4I4d', start_l, start_h, count)
  if count > 0 then
    part_end = end_h * 4294967296 + end_l
  end
end
