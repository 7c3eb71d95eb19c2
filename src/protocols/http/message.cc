#include "protocols/http/message.h"

#include <algorithm>

#include "core/ascii.h"

namespace sluice::http {

bool equals_ignoring_case(std::string_view a, std::string_view b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](char x, char y) {
           return to_small(x) == to_small(y);
         });
}

std::string_view query_of(std::string_view target) {
  const std::size_t mark = target.find('?');
  return mark == std::string_view::npos ? std::string_view() : target.substr(mark + 1);
}

std::string_view Message::field(std::string_view name) const {
  const HeaderField* const found = find(name);
  return found == nullptr ? std::string_view() : found->value;
}

std::string_view Message::only_field(std::string_view name) const {
  const HeaderField* const found = find(name);
  if (found == nullptr) return {};
  for (const HeaderField* other = found + 1; other != fields.data() + fields.size(); ++other) {
    if (equals_ignoring_case(other->name, name)) {
      throw Problem{.detail = "the header \"" + std::string(name) + "\" is there twice"};
    }
  }
  return found->value;
}

const HeaderField* Message::find(std::string_view name) const {
  for (const HeaderField& field : fields) {
    if (equals_ignoring_case(field.name, name)) return &field;
  }
  return nullptr;
}

}  // namespace sluice::http
