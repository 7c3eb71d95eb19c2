#include "pages/pages.h"

#include <cassert>

namespace sluice::pages {
namespace {

/// What web/frame.html has in the place of the data.
constexpr std::string_view kPlace = "@DATA@";

}  // namespace

std::string escaped(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      out += "\\u003c";
    } else {
      out += c;
    }
  }
  return out;
}

std::string filled(std::string_view page, std::string_view json) {
  const std::size_t place = page.find(kPlace);
  assert(place != std::string_view::npos);
  std::string out(page.substr(0, place));
  out += escaped(json);
  return out.append(page.substr(place + kPlace.size()));
}

}  // namespace sluice::pages
