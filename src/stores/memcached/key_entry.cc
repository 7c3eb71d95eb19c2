#include "stores/memcached/key_entry.h"

namespace sluice::memcached {

void KeyEntry::append_command(std::string& output, std::uint32_t number) const {
  switch (step) {
    case Step::kRead:
      return append_get(output, *name, number);
    case Step::kWrite:
      return append_set(output, {*name, value, expiry_s, token}, number);
    case Step::kRemove:
      return append_delete(output, {*name, token}, number);
  }
}

bool KeyEntry::can_be_answered(const MetaReply& reply) const {
  switch (reply.code) {
    case Code::kValue:
    case Code::kMiss:
      return !changes();
    case Code::kError:
      return true;
    default:
      return changes();
  }
}

}  // namespace sluice::memcached
