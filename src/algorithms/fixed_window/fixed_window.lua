-- fixed_window: the window that something was last admitted in, and how much.
--
-- State     start (8 bytes), count (8 bytes)
-- a         the window's length
-- b         a start of a window, most often that of now; 2^64 - 1 where a window starts with the
--           request that opens it
-- c         the cost
-- d         the count up to which the cost is admitted: any, where it is charged
local start_l, start_h, count = 0, 0, 0
if state then
  start_l, start_h, count, expiry, from = unpack('<I4I4dd', state, from)
  from = from - 8
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
if operation <= 2 then
  if count > d then
    admitted = false
  else
    count = count + c
    if count >= kTotals then
      count = kTotals - 1
    end
    part = pack('<I4I4d', start_l, start_h, count)
    part_end = end_h * 4294967296 + end_l
  end
elseif operation == 3 then
  count = max(0, count - c)
  part = pack('<I4I4d', start_l, start_h, count)
  if count > 0 then
    part_end = end_h * 4294967296 + end_l
  end
end
