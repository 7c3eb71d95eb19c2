#include "stores/stores.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "stores/memory/memory_store.h"

namespace sluice {
namespace {

// A share of a URL's query: name=value.
struct UrlOption {
  std::string_view name;
  std::string_view value;
};

[[noreturn]] void fail(std::string_view url, const std::string& fault) {
  throw StoreError("store '" + std::string(url) + "': " + fault);
}

template <class Visit>
void each_option(std::string_view url, Visit visit) {
  const std::size_t mark = url.find('?');
  std::string_view query = mark == std::string_view::npos ? "" : url.substr(mark + 1);
  while (!query.empty()) {
    const std::string_view pair = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), pair.size() + 1));
    const std::size_t equals = pair.find('=');
    if (equals == std::string_view::npos) {
      fail(url, "'" + std::string(pair) + "' is not an option=value");
    }
    visit(UrlOption{pair.substr(0, equals), pair.substr(equals + 1)});
  }
}

std::shared_ptr<Store> open_memory(std::string_view url, const StoreOptions& options) {
  MemoryOptions memory;
  if (options.virtual_time) memory.max_bytes = std::size_t{16} << 30;
  memory.table.fixed_secret = options.virtual_time;
  memory.table.forget = !options.virtual_time;
  each_option(url, [&](const UrlOption& option) {
    if (option.name == "max_bytes") {
      const char* end = option.value.data() + option.value.size();
      const auto read = std::from_chars(option.value.data(), end, memory.max_bytes);
      if (read.ec != std::errc{} || read.ptr != end ||
          memory.max_bytes < MemoryStore::kLeastBytes) {
        fail(url, "max_bytes is a whole number from " + std::to_string(MemoryStore::kLeastBytes));
      }
    } else if (option.name == "full") {
      if (option.value != "deny" && option.value != "allow") fail(url, "full is deny or allow");
      memory.table.allow_when_full = option.value == "allow";
    } else {
      fail(url, "there is no option '" + std::string(option.name) + "'; there are max_bytes, full");
    }
  });
  const std::string_view path = url.substr(0, url.find('?'));
  if (path != "memory:") fail(url, "nothing can follow 'memory:' but options");
  return std::make_shared<MemoryStore>(memory);
}

struct Row {
  std::string_view scheme;
  std::shared_ptr<Store> (*open)(std::string_view url, const StoreOptions& options);
};

// The table of stores. A new one is its folder and one row here.
constexpr std::array kStores{Row{"memory", open_memory}};

}  // namespace

std::shared_ptr<Store> open_store(std::string_view url) {
  return open_store(url, StoreOptions{});
}

std::shared_ptr<Store> open_store(std::string_view url, const StoreOptions& options) {
  const std::size_t colon = url.find(':');
  if (colon == std::string_view::npos) fail(url, "a store is written scheme:, as in memory:");
  const std::string_view scheme = url.substr(0, colon);
  for (const auto& store : kStores) {
    if (store.scheme == scheme) return store.open(url, options);
  }
  std::string schemes;
  for (const auto& store : kStores) schemes += " " + std::string(store.scheme) + ":";
  fail(url, "there is no such store; there are" + schemes);
}

}  // namespace sluice
