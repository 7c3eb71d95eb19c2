#pragma once

#include <string>

#include "sluice/store.h"

namespace sluice {

/// The message of the exception that `body` throws; empty if it throws none.
template <class Error = StoreError, class Body>
std::string error_of(const Body& body) {
  try {
    body();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace sluice
