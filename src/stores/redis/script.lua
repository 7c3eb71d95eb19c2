-- Judges a batch of requests and commits what is admitted, in one step of the server.
--
-- KEYS      the keys asked for, each once
-- ARGV[1]   the call's number (4 bytes), an instant (8 bytes; 2^64 - 1: by the server's clock), the
--           least lifetime of what is written and the clocks' skew (doubles, in ms), 1 if all
--           values are read as a whole (a byte), then units. A unit is one request or, joined by
--           `more`, several that are charged all or none:
--               operation (1 take, 2 charge, 3 refund, 4 peek, 5 reset, 6 block, 7 renew,
--               8 release), key (a byte each), the place of its space in ARGV (2 bytes), how many
--               parts, more (or 2: it goes on to take after the unit before, and is one with it),
--               1 if only its head is to be read, 1 if its head is answered (a byte each), the
--               head's bytes (2 bytes), and for each part
--               kind (a byte), a, b (8 bytes each), c, d (doubles): see the algorithms
--           A block comes with a part more, of kind 7: a is how long it lasts.
-- ARGV      for each space from the first on: what a value of it begins with, its length, and where
--           a head ends (as text)
--
-- A value has a head and slots. The head: 245, how many parts, for each part its algorithm's letter
-- and the numbers under which its state may be kept; then each part's state; then the instant, in
-- nanoseconds, up to which its expiry suffices (double). The slots are those of rings, or permits.
-- A value may stand within a block: see other_value.lua. When a permit is given back while all are
-- held, an empty message is published to the channel that is called as the key.
--
-- Returns a list: first the call's number, by which whoever asked knows the reply for its own, and
-- the instant (8 bytes), then for each unit 4 where it failed; or, for each request, 2 if its key
-- has a value, plus 8 if it is blocked, in a unit's first plus 1 if the unit is admitted; when the
-- block ends; with a value its head if that is wanted, and what rings answer, all as they were
-- before (permits: as they are afterwards). The list goes on with a sentence for each unit that
-- failed.
--
-- The loop makes few functions: each is made anew in every call of the script, and costs more than
-- most of what it would do. Numbers are doubles, so an instant is two of them, its lower (_l) and
-- its upper (_h) 32 bits.
local list, unpack, pack, sub = unpack, struct.unpack, struct.pack, string.sub
local call, pcall = redis.call, redis.pcall
local ceil, min, max = math.ceil, math.min, math.max
local kTotals = 9007199254740992
local kDamaged = 'ERR the value of the key is none of this program, or is damaged'

-- The start of the window that holds now, given any window's start and the length.
local function align(now_l, now_h, start_l, start_h, step_l, step_h)
  while true do
    local ahead_l, ahead_h = now_l - start_l, now_h - start_h
    if ahead_l < 0 then
      ahead_l, ahead_h = ahead_l + 4294967296, ahead_h - 1
    end
    if ahead_h >= 0 and (ahead_h < step_h or ahead_h == step_h and ahead_l < step_l) then
      return start_l, start_h
    end
    -- So many steps at once as are exact in a double; at least one in the right direction.
    local step = step_h * 4294967296 + step_l
    local most = math.max(1, math.floor(4503599627370496 / step))
    local steps = math.floor((ahead_h * 4294967296 + ahead_l) / step)
    steps = math.max(-most, math.min(most, steps))
    if steps == 0 then
      steps = ahead_h < 0 and -1 or 1
    end
    local move_l, move_h = steps * step_l, steps * step_h
    if most > 1 then
      move_l, move_h = steps * step % 4294967296, math.floor(steps * step / 4294967296)
    end
    start_l, start_h = start_l + move_l, start_h + move_h
    start_l, start_h = start_l % 4294967296, start_h + math.floor(start_l / 4294967296)
  end
end

-- The i-th slot of a ring from its oldest on: its stamp and its total. A ring is a list: what has
-- been read of the value, its key, where its slots begin, how many there are, the oldest one's
-- place, how many are used; the oldest (three numbers); then what is pushed, how many slots there
-- are to be, if more, and whether a slot was missing.
local function slot(ring, i)
  if i == 0 then
    return ring[7], ring[8], ring[9]
  end
  local offset = ring[3] + (ring[5] + i) % ring[4] * 16
  if offset + 16 <= #ring[1] then
    return unpack('<I4I4d', ring[1], offset + 1)
  end
  local read = redis.call('GETRANGE', ring[2], offset, offset + 15)
  if #read < 16 then
    ring[12] = true
    return 0, 0, 0
  end
  return unpack('<I4I4d', read)
end

-- The first slot whose total is at least `left` above `base_or_gone_l`, or, without `left`, whose
-- stamp is later than gone; how many there are where there is none. Most often it is an old one.
local function search(ring, left, base_or_gone_l, gone_h)
  local low, high, reach = 0, ring[6], 1
  while low < high do
    local i = math.min(math.floor((low + high) / 2), low + reach - 1)
    local stamp_l, stamp_h, total = slot(ring, i)
    local found
    if left then
      found = (total - base_or_gone_l) % 9007199254740992 >= left
    else
      found = stamp_h > gone_h or stamp_h == gone_h and stamp_l > base_or_gone_l
    end
    if found then
      high = i
    else
      low, reach = i + 1, reach * 2
    end
  end
  return low
end

local asked = ARGV[1]
local number, now_l, now_h, least_ms, skew_ms, whole, at = unpack('<I4I4I4ddB', asked)
if now_h == 4294967295 then
  -- Seconds times 10^9, in steps none of which needs more than 53 bits.
  local time = call('TIME')
  local seconds = time[1] + 0
  local seconds_l = seconds % 65536
  local upper = (seconds - seconds_l) / 65536 * 1000000000
  local upper_l = upper % 65536
  local lower = upper_l * 65536 + seconds_l * 1000000000 + time[2] * 1000
  now_l = lower % 4294967296
  now_h = (upper - upper_l) / 65536 + (lower - now_l) / 4294967296
end
local now = now_h * 4294967296 + now_l
-- Another clock, or the next request's instant, may be behind this one.
local behind = least_ms > 0 or skew_ms > 0
-- Values in hand, by key: empty where there is none. What has been written is read anew, and so is
-- what MGET does not tell from none.
local held = whole == 1 and call('MGET', list(KEYS)) or {}

local answer, out, n = {''}, {pack('<I4I4I4', number, now_l, now_h)}, 1
-- What units that are one have taken, before the one at hand.
local taken = 0
while at <= #asked do
  local unit, admitted, fault, members, more = n + 1, true, nil, nil, nil
  repeat
    local operation, place, space, parts, partly, answers, head
    operation, place, space, parts, more, partly, answers, head, at =
        unpack('<BBI2BBBBI2', asked, at)
    local begins, state = ARGV[space], held[place]
    local pushes, inner, until_l, until_h, permits, freed
    local takes = 0
    if more == 2 then
      more = 0
    else
      taken = 0
    end
    if not state then
      if partly == 1 then
        state = pcall('GETRANGE', KEYS[place], '0', ARGV[space + 2])
      else
        state = pcall('GET', KEYS[place]) or ''
      end
      held[place] = state
    end
    n = n + 1
    if #state >= head and sub(state, 1, #begins) == begins then
      out[n] = '\2'
      if answers == 1 then
        n = n + 1
        out[n] = #state == head and state or sub(state, 1, head)
      end
    else
      --> stores/redis/other_value.lua
    end
    local from, slots_at, expiry = #begins + 1, head, 0
    local states, last, spare = nil, 0, 0
    for _ = 1, parts do
      local kind, a_l, a_h, b_l, b_h, c, d
      kind, a_l, a_h, b_l, b_h, c, d, at = unpack('<BI4I4I4I4dd', asked, at)
      local part, part_end = nil, 0
      if kind == 1 then
        --> algorithms/bucket.lua
      elseif kind == 2 then
        --> algorithms/fixed_window/fixed_window.lua
      elseif kind == 3 then
        --> algorithms/sliding_counter/sliding_counter.lua
      elseif kind <= 5 then
        local most
        if kind == 4 then
          --> algorithms/sliding_log/sliding_log.lua
        else
          --> algorithms/sliding_window/sliding_window.lua
        end
        --> algorithms/ring_log.lua
      elseif kind == 6 then
        --> algorithms/concurrency/concurrency.lua
      else
        a_l, a_h = now_l + a_l, now_h + a_h
        if a_l >= 4294967296 then
          a_l, a_h = a_l - 4294967296, a_h + 1
        end
        if not until_h or a_h > until_h or a_h == until_h and a_l > until_l then
          until_l, until_h = a_l, a_h
        end
      end
      if part then
        states = states and states .. part or part
        if part_end > last then
          last = part_end
        end
      end
    end
    if state and #state ~= slots_at and #state ~= head then
      fault = kDamaged
    end
    -- What gives back to nothing takes off a block that is over, as all that writes does.
    local changes = operation <= 2 or operation == 3 and (state or inner == '' and not until_h) or
                    operation == 5 and held[place] ~= '' or operation > 5
    if more == 1 or members then
      members = members or {}
      if changes then
        members[#members + 1] =
            {place, space, state, head, slots_at, states, expiry, last, spare, pushes, inner}
      end
      changes = #members > 0
    end
    if admitted then
      taken = taken + takes
    end
    if more == 0 and changes and admitted and not fault then
      if operation ~= 6 then
        --> stores/redis/commit.lua
      end
      if until_h and not members and not fault then
        --> stores/redis/wrap.lua
      end
      if freed then
        -- For those who wait, here or elsewhere; a user who may not publish lets them ask again.
        pcall('PUBLISH', KEYS[place], '')
      end
    end
  until more == 0
  if fault then
    out[unit], n = '\4', unit
    answer[#answer + 1] = fault
  elseif admitted then
    out[unit] = out[unit] == '\2' and '\3' or out[unit] == '\0' and '\1' or
                string.char(string.byte(out[unit]) + 1)
  end
end
answer[1] = table.concat(out, '', 1, n)
return answer
