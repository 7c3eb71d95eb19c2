-- sliding_log: units are stamped with the instant at which they are judged. See ring_log.lua.
--
-- b         the most slots that can be in use
most, b_l, b_h = b_l, now_l, now_h
