#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <system_error>

#include "testing/scripted_store.h"

namespace sluice {

// The stores of the server's tests.

/// A store whose time is the same until a test changes it.
inline std::shared_ptr<ScriptedStore> still_store() {
  auto store = std::make_shared<ScriptedStore>();
  store->clock = 1'700'000'000'000'000'000;
  return store;
}

/// A still_store() that answers when it is told to. What is asked for a key that begins with "lost"
/// is lost. It answers within submit() once a test has set `answers` to kAtOnce: do so after the
/// server was made, which asks only then whether its store answers later.
inline std::shared_ptr<ScriptedStore> later_store() {
  auto store = still_store();
  store->answers = ScriptedStore::Answers::kWhenTold;
  store->loses = [](const Request& request) { return request.key.starts_with("lost"); };
  store->error = "redis://far.example:6379 has not answered within 10ms";
  return store;
}

/// Every request is lost, because "the store is away", and found to be within submit().
inline void take_away(ScriptedStore& store) {
  store.answers = ScriptedStore::Answers::kAtOnce;
  store.error = "the store is away";
  store.lose_all();
}

/// Answers what is asked for a key that begins with "local" as local states would: with the
/// decision, in the store's place.
inline void decide_locally(ScriptedStore& store, const Decision& decision) {
  store.says = [decision](const Request& request) -> std::optional<Decision> {
    if (!request.key.starts_with("local")) return std::nullopt;
    Decision local = decision;
    local.source = Source::kLocal;
    return local;
  };
}

/// What the system throws that does not give what is asked of it: for ScriptedStore::breaks.
inline std::exception_ptr broken_system() {
  return std::make_exception_ptr(
      std::system_error(std::make_error_code(std::errc::io_error), "there is none"));
}

}  // namespace sluice
