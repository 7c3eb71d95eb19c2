-- token_bucket and leaky_bucket: one instant, the theoretical arrival time.
--
-- State     arrival (8 bytes)
-- a         what the request spends, as time; 2^63 where no state can admit it. A charge that goes
--           beyond 2^63 - 1 ends there. Of a take of as much as there is: what one unit spends
-- b         how far ahead of now the arrival time may lie for the request to be admitted: burst,
--           cost, patience and borrowing in one number. Of a take of as much as there is: the burst
--           as time
-- d         the horizon: the time in which a full debt is paid
local arrival_l, arrival_h = 0, 0
if state then
  arrival_l, arrival_h, from = unpack('<I4I4', state, from)
end
local owes = arrival_h > now_h or arrival_h == now_h and arrival_l > now_l
if measures then
  local left_l, left_h = b_l, b_h
  if owes then
    left_l, left_h = b_l - (arrival_l - now_l), b_h - (arrival_h - now_h)
  end
  -- A quotient of doubles, put right by what then remains.
  local count = (left_h * 4294967296 + left_l) / (a_h * 4294967296 + a_l)
  count = max(0, min(taken, floor(count)))
  local spent_l, spent_h = multiply(count, a_l, a_h)
  left_l, left_h = left_l - spent_l, left_h - spent_h
  while count > 0 and left_h * 4294967296 + left_l < 0 do
    count, left_l, left_h = count - 1, left_l + a_l, left_h + a_h
  end
  while count < taken and (left_h - a_h) * 4294967296 + (left_l - a_l) >= 0 do
    count, left_l, left_h = count + 1, left_l - a_l, left_h - a_h
  end
  taken = count
elseif operation <= 2 then
  if taken then
    a_l, a_h = multiply(cost, a_l, a_h)
    b_l, b_h = b_l - a_l, b_h - a_h
    if b_l < 0 then
      b_l, b_h = b_l + 4294967296, b_h - 1
    end
  end
  b_l, b_h = b_l + now_l, b_h + now_h
  if b_l >= 4294967296 then
    b_l, b_h = b_l - 4294967296, b_h + 1
  end
  if arrival_h > b_h or arrival_h == b_h and arrival_l > b_l then
    admitted = false
  else
    if not owes then
      arrival_l, arrival_h = now_l, now_h
    end
    arrival_l, arrival_h = arrival_l + a_l, arrival_h + a_h
    if arrival_l >= 4294967296 then
      arrival_l, arrival_h = arrival_l - 4294967296, arrival_h + 1
    end
    if arrival_h >= 2147483648 then
      arrival_l, arrival_h = 4294967295, 2147483647
      admitted = admitted and operation == 2
    end
    part = pack('<I4I4', arrival_l, arrival_h)
    part_end = arrival_h * 4294967296 + arrival_l
    if d > spare then
      spare = d
    end
  end
elseif operation == 3 then
  if owes then
    arrival_l, arrival_h = arrival_l - a_l, arrival_h - a_h
    if arrival_l < 0 then
      arrival_l, arrival_h = arrival_l + 4294967296, arrival_h - 1
    end
    if arrival_h < now_h or arrival_h == now_h and arrival_l <= now_l then
      arrival_l, arrival_h = now_l, now_h
      owes = false
    end
  end
  part = pack('<I4I4', arrival_l, arrival_h)
  -- If all is refunded, nothing is left to keep, unless another clock may show an earlier time.
  if behind or owes then
    part_end = arrival_h * 4294967296 + arrival_l
  end
end
