-- sliding_window: units are stamped with the start of their sub-window. See ring_log.lua.
--
-- b         a start of a sub-window, most often that of now
-- then      the sub-window's length (8 bytes), behind d
local step_l, step_h
step_l, step_h, at = unpack('<I4I4', asked, at)
b_l, b_h = align(now_l, now_h, b_l, b_h, step_l, step_h)
-- Where the limit becomes strict, units count for one sub-window more.
longer = step_h * 4294967296 + step_l
most = ceil((a_h * 4294967296 + a_l) / longer) - 1
