-- sliding_counter: two counts. The estimate is made of the operations of sliding_counter.cc, in
-- their order.
--
-- State     start of the current window (8 bytes), its count, the count of the one before (doubles)
-- a         the window's length, at most 2^53 ns
-- b         a start of a window, most often that of now
-- d         the limit, infinite in a charge; in a refund, what of the cost lies beyond 2^53
local start_l, start_h, current, previous = 0, 0, 0, 0
if state then
  start_l, start_h, current, previous, from = unpack('<I4I4dd', state, from)
end
local window = a_h * 4294967296 + a_l
local elapsed = (now_h - start_h) * 4294967296 + (now_l - start_l)
local shifted = false
if elapsed < 0 then
  elapsed = 0
elseif elapsed >= window and current > 0 then
  -- Judged in the window after the one it was written in.
  shifted = true
  start_l, start_h = start_l + a_l, start_h + a_h
  if start_l >= 4294967296 then
    start_l, start_h = start_l - 4294967296, start_h + 1
  end
  current, previous = 0, current
  elapsed = (now_h - start_h) * 4294967296 + (now_l - start_l)
end
if elapsed >= window or current <= 0 and previous <= 0 then
  shifted, current, previous = false, 0, 0
  start_l, start_h = align(now_l, now_h, b_l, b_h, a_l, a_h)
end
local used = previous * ((window - elapsed) / window) + current
if measures then
  -- The largest cost that the test below admits: what rounding has put off is put right by it.
  local count = max(0, min(taken, floor(d - used)))
  while count > 0 and used + count > d do
    count = count - 1
  end
  while count < taken and used + (count + 1) <= d do
    count = count + 1
  end
  taken = count
elseif operation <= 2 then
  if used + cost <= d then
    current = min(current + cost, kTotals - 1)
    part = pack('<I4I4dd', start_l, start_h, current, previous)
    part_end = (start_h + a_h + a_h) * 4294967296 + start_l + a_l + a_l
  else
    admitted = false
  end
elseif operation == 3 then
  local newest = min(current, cost)
  current, previous = current - newest, max(0, previous - (cost - newest + d))
  -- Only what is admitted moves a key's clock: the counts of the window before stay its own.
  if shifted then
    start_l, start_h = start_l - a_l, start_h - a_h
    if start_l < 0 then
      start_l, start_h = start_l + 4294967296, start_h - 1
    end
    current, previous = previous, 0
  end
  part = pack('<I4I4dd', start_l, start_h, current, previous)
  if current > 0 then
    part_end = (start_h + a_h + a_h) * 4294967296 + start_l + a_l + a_l
  elseif previous > 0 then
    part_end = (start_h + a_h) * 4294967296 + start_l + a_l
  end
end
