#include "core/store.h"

#include <cassert>
#include <utility>

namespace sluice {

void Store::submit(std::unique_ptr<Batch> batch) {
  assert(batch->completion != nullptr);
  try {
    if (batch->is_together()) {
      decide_all(batch->requests(), batch->now(), batch->decisions()[0]);
    } else {
      decide(batch->requests(), batch->now(), batch->decisions());
    }
  } catch (const StoreError& error) {
    batch->set_error(error.what());
  }
  Batch::complete(std::move(batch));
}

}  // namespace sluice
