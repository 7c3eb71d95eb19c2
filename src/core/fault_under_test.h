#pragma once

#include <string>

#include "core/store.h"

namespace sluice {

/// What `body` throws says; empty where it throws nothing.
template <class Error = StoreError, class Body>
std::string fault_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace sluice
