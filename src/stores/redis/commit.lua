-- Writes what a unit changes: one request, or `members`. A server that refuses to write does so
-- before anything is written.
-- reads     key, space, state, head, slots_at, states, last, spare, pushes, expiry, until_l and
--           until_h of the request, or instead of these `members`, of which none is blocked;
--           permits, now, written, given_ms, skew_ms
-- sets      failure: what a server says that refuses; failed: '+' if other keys were written before
local member = 0
repeat
  if members then
    member = member + 1
    key, space, state, head, slots_at, states, last, spare, pushes, expiry =
        list(members[member], 1, 10)
    until_l, until_h = 0, 0
  end
  local reply
  local renews, grows, lifetime_ms = permits or not state or last > expiry * kUnit, false, 0
  if pushes then
    for p = 1, #pushes do
      grows = grows or pushes[p].new_size
    end
  end
  if renews then
    expiry = ceil((last + spare) / kUnit)
  end
  if renews or grows then
    -- What a refund leaves for a clock that is behind may have ended longer ago than clocks differ.
    lifetime_ms = given_ms > 0 and given_ms or
                  max(1, ceil((expiry * kUnit - now) / 1000000) + 1 + skew_ms)
    -- A debt may reach beyond what four bytes hold.
    expiry = min(4294967295, expiry)
  end
  local instants = pack('<I4I4I4I4', until_l, until_h, expiry, written)
  if last == 0 then
    reply = pcall('DEL', key)
  elseif grows or renews and (permits or not state or slots_at == head) then
    -- All of it. The slots of a ring that grows begin with its oldest one.
    local slots = permits or grows and call('GETRANGE', key, head, -1) or ''
    for p = pushes and #pushes or 0, 1, -1 do
      local push = pushes[p]
      local begin, size, first = push.at - head, push.size * 16, push.first * 16
      if push.new_size then
        slots = sub(slots, 1, begin) .. sub(slots, begin + first + 1, begin + size) ..
                sub(slots, begin + 1, begin + first) .. push.slot ..
                string.rep('\0', push.new_size * 16 - size - 16) .. sub(slots, begin + size + 1)
      else
        local hole = begin + (first + push.used * 16) % size
        slots = sub(slots, 1, hole) .. push.slot .. sub(slots, hole + 17)
      end
    end
    reply = pcall('SET', key, ARGV[space] .. states .. instants .. slots, 'PX', lifetime_ms)
  else
    -- What has changed of it. PEXPIRE comes first: where the user has no right to it, nothing has
    -- been written yet. If a later command fails, the value is only kept for longer.
    if renews then
      reply = pcall('PEXPIRE', key, lifetime_ms)
    end
    for p = 1, pushes and #pushes or 0 do
      local push = pushes[p]
      local hole = push.at + (push.first + push.used) % push.size * 16
      reply = type(reply) == 'table' and reply or pcall('SETRANGE', key, hole, push.slot)
    end
    if type(reply) ~= 'table' then
      reply = pcall('SETRANGE', key, ARGV[space + 1], states .. instants)
    end
  end
  failure = type(reply) == 'table' and reply.err or nil
  failed = member > 1 and '+' or '-'
until failure or not members or member == #members
