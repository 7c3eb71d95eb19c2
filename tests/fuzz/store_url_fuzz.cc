// A store's URL: any text is read, or refused in one sentence. Neither shows the password.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "check.h"
#include "stores/memcached/memcached_space.h"
#include "stores/remote_url.h"
#include "stores/url.h"

namespace {

using namespace sluice;

void check_line(std::string_view text) {
  for (const char c : text) check(static_cast<unsigned char>(c) >= ' ' && c != '\x7f');
}

// Whether the password occurs in the URL unescaped, between ':' and '@' and nowhere else, and is so
// long that no other text of the URL or message can equal it by chance.
bool stands_once(std::string_view url, const std::string& password) {
  const std::size_t at = url.find(':' + password + '@');
  return password.size() >= 4 && password.find('*') == password.npos && at != url.npos &&
         url.find(password) == at + 1 && url.rfind(password) == at + 1 && url.find('?') > at &&
         url.find('/', url.find("//") + 2) > at;
}

void read(std::string_view text) {
  StoreUrl url(text);
  check_line(url.text());
  check(!stands_once(text, url.password()) || url.text().find(url.password()) == std::string::npos);
  if (url.scheme() == "memcached") {
    const auto options = read_memcached_url(url, {});
    check(!options.servers.empty() && memcached::is_prefix(options.prefix));
    check(options.connections >= 1 && options.deadline.count() > 0);
  } else {
    const auto options = read_redis_url(url, {});
    check(!options.servers.empty() && !options.prefix.empty());
    check(options.connections >= 1 && options.deadline.count() > 0);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    read(text);
  } catch (const StoreError& error) {
    check_line(error.what());
  }
  return 0;
}
