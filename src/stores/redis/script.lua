-- Decides a batch of requests and writes what they change, in one step of the server. A line of
-- "-->" and a path is replaced by that file of src/ when this is built (cmake/EmbedScript.cmake).
--
-- KEYS      the key of each request; several requests may have the same one
-- ARGV[1]   a header, then the requests in the order of their keys; integers are little-endian
--   header    the call's number (4 bytes), an instant in nanoseconds (8; 2^64 - 1: by the server's
--             clock), the lifetime of what is written (0: as its state needs) and the clocks' skew
--             (doubles, in ms)
--   request   operation (1): 0 take, 1 take as much as there is, 2 charge, 3 refund, 4 block,
--             5 reset, 6 renew, 7 release, 8 peek; 1 if it is charged together with the next
--             request, all or none (1); the place in ARGV of its space (2); the bytes of a value's
--             head (2); its cost (double, at most 2^53); how many parts follow (1)
--   part      kind (1; plus 128 if a refund returns nothing to it), a, b (8 each), d (double): see
--             the Lua of each algorithm. A block has one more part, of kind 0: a is how long it
--             lasts
-- ARGV      three texts for each space: what a value begins with, the length of that, and the last
--           byte that is read of a value at first (empty: all of it is)
--
-- A value has a head and slots. The head: 245, how many parts, for each part its algorithm's letter
-- and the numbers under which its state may be kept; then the state of each part, all zero where it
-- is fresh; then the instant at which the key's block ends (8 bytes; 0: it has none), the one up to
-- which the value's expiry suffices, and the one at which it was written (4 bytes each, in units of
-- 2^30 ns, a little more than a second). The slots are the entries of rings, or permits.
--
-- Requests that are charged all or none are one unit; each other request is a unit by itself.
-- Returns one string: the call's number (4) and the instant (8), then for each unit '-' if it has
-- failed ('+' if a part of it was written), the length of a sentence (2) and the sentence; else '1'
-- if it is admitted, '0' if it is denied, and then for each of its requests:
--   1 if the key has a value, else 0 (1 byte)
--   the head of the value, if it has one, as it was before
--   for each part that is a ring or permits a summary (24): see ring_log.lua, concurrency.lua
--   how much was taken (double), if the request takes as much as there is
--
-- Numbers are doubles, so an instant is two of them: its lower (_l) and its upper (_h) 32 bits.
--
-- The algorithms' Lua stands within the loop, where it is two times as fast as functions would be,
-- and decides one part by the locals of its place. It reads
--   operation, cost, a_l to d (the part: see above), now_l, now_h, now (both as one), behind
--   measures  whether it is asked only how much there is; operation is 8 then
--   state     nil if the key is fresh for this limit; else the part's own state begins at `from`
-- and sets
--   from      behind its own state
--   failure   kDamaged if the state cannot be right
--   taken     if it measures: lowered to what is left. It leaves the next four alone then
--   admitted  false if it denies
--   part      if it admits, and the operation changes its state: the state afterwards
--   part_end  with `part`: the last instant (ns) at which that state matters; 0 if it is fresh
--   spare     raised to the time (ns) for which the value may be kept longer than that
-- Rings also move slots_at behind their slots, append a summary to `summaries` and add to `pushes`.
-- Permits have no state in the head, and set slots_at, `summaries`, `permits` and `freed`.
local list, unpack, pack, sub, byte = unpack, struct.unpack, struct.pack, string.sub, string.byte
local call, pcall = redis.call, redis.pcall
local ceil, floor, min, max = math.ceil, math.floor, math.min, math.max
-- Totals and counts stay below this.
local kTotals = 9007199254740992
-- Of the last two instants of a head.
local kUnit = 1073741824
local kDamaged = 'ERR the value of the key is none of this program, or is damaged'

-- The start of the window that holds now, given the start of any window and the length.
local function align(now_l, now_h, start_l, start_h, step_l, step_h)
  while true do
    local ahead_l, ahead_h = now_l - start_l, now_h - start_h
    local ahead = ahead_h * 4294967296 + ahead_l
    if ahead >= 0 and (ahead_h - step_h) * 4294967296 + (ahead_l - step_l) < 0 then
      return start_l, start_h
    end
    -- As many steps at once as are exact in a double.
    local step = step_h * 4294967296 + step_l
    local most = max(1, floor(4503599627370496 / step))
    local steps = max(-most, min(most, floor(ahead / step)))
    start_l, start_h = start_l + steps * step_l, start_h + steps * step_h
    start_l, start_h = start_l % 4294967296, start_h + floor(start_l / 4294967296)
  end
end

-- count, at most 2^53, times an integer; the product is below 2^64. Digits of 18 bits keep each sum
-- exact.
local function multiply(count, factor_l, factor_h)
  local product_l, product_h, weight = 0, 0, 68719476736
  while weight >= 1 do
    local digit = floor(count / weight) % 262144
    local lower = product_l * 262144 + digit * factor_l
    product_l = lower % 4294967296
    product_h = product_h * 262144 + digit * factor_h + (lower - product_l) / 4294967296
    weight = weight / 262144
  end
  return product_l, product_h
end

-- A ring to search: what has been read of the value, its key, where in it the slots begin, how many
-- there are, the place of the oldest one in use, how many are in use; the oldest one's stamp and
-- total.
local function ring_of(value, key, at, size, first, used, oldest_l, oldest_h, oldest)
  return {value = value, key = key, at = at, size = size, first = first, used = used,
          oldest_l = oldest_l, oldest_h = oldest_h, oldest = oldest}
end

-- Whether a slot was not there.
local missing = false

-- The stamp and the total of a ring's i-th slot from its oldest one on.
local function slot(ring, i)
  if i == 0 then
    return ring.oldest_l, ring.oldest_h, ring.oldest
  end
  local offset = ring.at + (ring.first + i) % ring.size * 16
  if offset + 16 <= #ring.value then
    return unpack('<I4I4d', ring.value, offset + 1)
  end
  local read = call('GETRANGE', ring.key, offset, offset + 15)
  if #read < 16 then
    missing = true
    return 0, 0, 0
  end
  return unpack('<I4I4d', read)
end

-- The first slot whose total is at least `left` above `base_or_gone_l`, or, without `left`, whose
-- stamp is later than gone; how many there are where there is none. Most often it is an old one.
local function search(ring, left, base_or_gone_l, gone_h)
  local low, high, reach = 0, ring.used, 1
  while low < high do
    local i = min(floor((low + high) / 2), low + reach - 1)
    local stamp_l, stamp_h, total = slot(ring, i)
    local found
    if left then
      found = (total - base_or_gone_l) % kTotals >= left
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
local number, now_l, now_h, given_ms, skew_ms, at = unpack('<I4I4I4dd', asked)
if now_h == 4294967295 then
  -- 10^9 is 1953125 * 2^9; seconds times 1953125 are exact as long as instants go, until 2116.
  local time = call('TIME')
  local count = time[1] * 1953125
  now_l, now_h = count % 8388608 * 512 + time[2] * 1000, floor(count / 8388608)
  if now_l >= 4294967296 then
    now_l, now_h = now_l - 4294967296, now_h + 1
  end
end
local now = now_h * 4294967296 + now_l
local written = floor(now / kUnit)
-- Another clock, or the next request's instant, may be behind this one.
local behind = given_ms > 0 or skew_ms > 0

local replies, units, i = {pack('<I4I4I4', number, now_l, now_h)}, 1, 0
while at <= #asked do
  -- One unit. `members` are the requests of several that change something.
  local admitted, failure, failed, answer, members, more = true, nil, '-', '1', nil, 0
  repeat
    i = i + 1
    local key, operation, space, head, cost, parts = KEYS[i], nil, nil, nil, nil, nil
    operation, more, space, head, cost, parts, at = unpack('<BBI2I2dB', asked, at)
    local begins, last_byte = ARGV[space], ARGV[space + 2]
    local value = last_byte == '' and (pcall('GET', key) or '') or
                  pcall('GETRANGE', key, '0', last_byte)
    -- state: the value, as far as it has been read, if this limit can go on from it. until_l,
    -- until_h: when the block ends that stands; blocked_to: both as one. expiry: that of the value.
    local state, known, until_l, until_h, expiry, blocked_to = nil, '\0', 0, 0, 0, 0
    if operation == 5 then
      -- A reset removes a value that is damaged, too, and answers as if there had been none.
      failure = value.err or failure
    elseif #value >= head and sub(value, 1, #begins) == begins then
      state, known = value, '\1'
      until_l, until_h, expiry = unpack('<I4I4I4', state, head - 15)
      if until_h >= 2147483648 then
        failure = kDamaged
      end
    elseif value ~= '' then
      -- Another limit's counts as none, and is overwritten. One that begins as this limit's is too
      -- short for it.
      if value.err or byte(value) ~= 245 or sub(value, 1, #begins) == begins then
        failure = value.err or kDamaged
      end
    end
    if until_h > now_h or until_h == now_h and until_l > now_l then
      -- It denies what takes.
      admitted = admitted and operation > 1
      blocked_to = until_h * 4294967296 + until_l
    else
      until_l, until_h = 0, 0
    end
    -- What the parts say: their states afterwards; where the slots end; the last instant at which a
    -- state matters, and for how much longer the value may be kept; the rings that get a slot.
    local states, slots_at, last, spare, pushes
    local permits, freed, summaries
    -- A take of as much as there is looks at the parts twice: how much that is, then to take it.
    local parts_at, taken = at, operation == 1 and cost or nil
    repeat
      local measures, from = operation == 1, #begins + 1
      operation = measures and 8 or operation
      at, states, slots_at, last, spare, summaries = parts_at, nil, head, blocked_to, 0, ''
      for _ = 1, parts do
        local kind, a_l, a_h, b_l, b_h, d
        kind, a_l, a_h, b_l, b_h, d, at = unpack('<BI4I4I4I4d', asked, at)
        local part, part_end, cost = nil, 0, cost
        if kind >= 128 then
          kind, cost = kind - 128, 0
        end
        if kind == 1 then
          --> algorithms/bucket.lua
        elseif kind == 2 then
          --> algorithms/fixed_window/fixed_window.lua
        elseif kind == 3 then
          --> algorithms/sliding_counter/sliding_counter.lua
        elseif kind == 4 or kind == 5 then
          local longer, most = 0, nil
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
          if a_h > until_h or a_h == until_h and a_l > until_l then
            until_l, until_h = a_l, a_h
          end
          -- The states of the parts before it stay.
          part = state and sub(state, #begins + 1, head - 16) or
                 string.rep('\0', head - 16 - #begins)
          part_end = until_h * 4294967296 + until_l
        end
        if part then
          states = states and states .. part or part
          if part_end > last then
            last = part_end
          end
        end
      end
      if measures then
        -- Where there is nothing it is denied as a take of one.
        operation, cost = 0, max(1, taken)
      end
    until not measures
    if state and #state ~= slots_at and #state ~= head then
      failure = kDamaged
    end
    local before = not state and '' or #state == head and state or sub(state, 1, head)
    answer = answer .. known .. before .. summaries .. (taken and pack('<d', taken) or '')
    local changes = operation ~= 8
    if operation == 3 then
      changes = state
    elseif operation == 5 then
      changes = value ~= ''
    end
    if more == 1 or members then
      members = members or {}
      if changes then
        members[#members + 1] =
            {key, space, state, head, slots_at, states, last, spare, pushes, expiry}
      end
      changes = #members > 0
    end
    if more == 0 and changes and admitted and not failure then
      --> stores/redis/commit.lua
      if freed then
        -- Wakes the callers that wait. If this user may not publish, they ask again by themselves.
        pcall('PUBLISH', key, '')
      end
    end
  until more == 0
  units = units + 1
  if failure then
    -- Its length is written with 16 bits.
    failure = sub(failure, 1, 1000)
  end
  replies[units] = failure and failed .. pack('<I2c0', #failure, failure) or
                   admitted and answer or '0' .. sub(answer, 2)
end
return table.concat(replies)
