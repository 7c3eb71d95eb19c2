-- token_bucket and leaky_bucket: one instant, the theoretical arrival time.
--
-- State     arrival (8 bytes)
-- a         what the request spends, as time; 2^63 where no state can admit it. A charge that goes
--           beyond 2^63 - 1 ends there.
-- b         how far ahead of now the arrival time may lie for it to be admitted: burst, cost,
--           patience and borrowing in one number
-- c         the horizon: the time in which a full debt is paid
local arrival_l, arrival_h = 0, 0
if state then
  arrival_l, arrival_h, expiry, from = unpack('<I4I4d', state, from)
  from = from - 8
end
if operation <= 2 then
  b_l, b_h = b_l + now_l, b_h + now_h
  if b_l >= 4294967296 then
    b_l, b_h = b_l - 4294967296, b_h + 1
  end
  if arrival_h > b_h or arrival_h == b_h and arrival_l > b_l then
    admitted = false
  else
    if arrival_h < now_h or arrival_h == now_h and arrival_l < now_l then
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
    if c > spare then
      spare = c
    end
  end
elseif operation == 3 then
  if arrival_h > now_h or arrival_h == now_h and arrival_l > now_l then
    arrival_l, arrival_h = arrival_l - a_l, arrival_h - a_h
    if arrival_l < 0 then
      arrival_l, arrival_h = arrival_l + 4294967296, arrival_h - 1
    end
    if arrival_h < now_h or arrival_h == now_h and arrival_l <= now_l then
      arrival_l, arrival_h = now_l, now_h
    end
  end
  part = pack('<I4I4', arrival_l, arrival_h)
  -- Where all is given back nothing is left to keep, unless another clock may yet show less.
  if behind or arrival_h > now_h or arrival_h == now_h and arrival_l > now_l then
    part_end = arrival_h * 4294967296 + arrival_l
  end
end
