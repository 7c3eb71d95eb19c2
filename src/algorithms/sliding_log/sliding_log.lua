-- sliding_log: units are stamped with the instant at which they are judged. See ring_log.lua.
b_l, b_h, most = now_l, now_h, c + d - 1
