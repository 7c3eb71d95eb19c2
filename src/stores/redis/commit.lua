-- Writes what a unit changes: one request, or `members`. A server that refuses to write does so
-- before anything is written; `fault` is then what it says.
local member = 0
repeat
  if members then
    member = member + 1
    place, space, state, head, slots_at, states, expiry, last, spare, pushes, inner =
        list(members[member], 1, 11)
  end
  local name, reply = KEYS[place], nil
  held[place] = nil
  if inner then
    -- It is written as it would be without a block, and put within it again afterwards.
    expiry = 0
    if state and last > 0 then
      fault = pcall('SET', name, inner).err
    end
  end
  local renews, grows, lifetime_ms = not state or last > expiry, false, 0
  if pushes then
    for p = 1, #pushes do
      grows = grows or pushes[p][11]
    end
  end
  if renews then
    expiry = last + spare
  end
  if renews or grows then
    -- What a refund leaves for a clock that is behind may have ended longer ago than clocks differ.
    lifetime_ms = max(least_ms, 1, ceil((expiry - now) / 1000000) + 1 + skew_ms)
  end
  if fault then
    break
  elseif last == 0 then
    reply = pcall('DEL', name)
    fault = type(reply) == 'table' and reply.err or nil
  elseif permits or grows or renews and (not state or slots_at == head) then
    local slots = permits or grows and call('GETRANGE', name, head, -1) or ''
    for p = pushes and #pushes or 0, 1, -1 do
      local ring = pushes[p]
      local begin, size, first = ring[3] - head, ring[4] * 16, ring[5] * 16
      if ring[11] then
        slots = sub(slots, 1, begin) .. sub(slots, begin + first + 1, begin + size) ..
                sub(slots, begin + 1, begin + first) .. ring[10] ..
                string.rep('\0', ring[11] * 16 - size - 16) .. sub(slots, begin + size + 1)
      else
        local hole = begin + (first + ring[6] * 16) % size
        slots = sub(slots, 1, hole) .. ring[10] .. sub(slots, hole + 17)
      end
    end
    reply = pcall('SET', name, ARGV[space] .. states .. pack('<d', expiry) .. slots, 'PX',
                  lifetime_ms)
    fault = reply.err
  else
    for p = 1, pushes and #pushes or 0 do
      local ring = pushes[p]
      local hole = ring[3] + (ring[5] + ring[6]) % ring[4] * 16
      reply = type(reply) == 'table' and reply or pcall('SETRANGE', name, hole, ring[10])
    end
    if renews then
      states = states .. pack('<d', expiry)
    end
    if type(reply) ~= 'table' then
      reply = pcall('SETRANGE', name, ARGV[space + 1], states)
    end
    if type(reply) == 'table' then
      fault = reply.err
    elseif renews then
      reply = pcall('PEXPIRE', name, lifetime_ms)
      fault = type(reply) == 'table' and reply.err or nil
    end
  end
until fault or not members or member == #members
