#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "algorithms/limit_definition.h"
#include "core/store.h"
#include "protocols/resp/batch.h"

namespace sluice::resp {

/// The decisions of one turn asked of a store that may answer later, with the replies among which
/// theirs belong. It has a copy of whatever it asks about, so that neither the input, nor the
/// session, nor the desk need stay until it is answered.
///
/// Used on one thread, except answered(). Made by std::make_shared.
class PendingBatch final : public Inquiry, public std::enable_shared_from_this<PendingBatch> {
 public:
  /// REQUIRES: fewer than kMaxBatch added; not submitted. The request's limit stays where it is
  /// until submit().
  void add(const Request& request, Form form, const std::shared_ptr<Space>& space);

  /// Takes the replies that follow the decisions added so far.
  std::string& replies() { return replies_; }

  /// Asks the store. True: all is decided, as far as it can be. False: `wake` will be called, on
  /// any thread, when it is.
  bool submit(Store& store, Instant at, const std::function<void()>& wake);

  bool is_decided() const { return decided_.load(std::memory_order_acquire); }

  /// Appends all replies in order. A decision that nobody made is an error that says why.
  /// REQUIRES: is_decided().
  void write_replies(std::string& output) const;

  /// Makes it as new, but for the memory of an ordinary batch. REQUIRES: it is not with a store.
  void clear();

  void answered() noexcept override;

 private:
  /// A limit that requests in a row ask about.
  struct Asked {
    LimitDefinition limit;
    std::shared_ptr<Space> space;
  };
  struct Place {
    Form form = Form::kDone;
    std::size_t asked = 0;        // Which of asked_.
    std::size_t replies_end = 0;  // The replies before this one.
  };

  void refer_to_copies();

  std::vector<Request> requests_;
  std::vector<Decision> decisions_;
  std::vector<Place> places_;
  std::vector<Asked> asked_;
  std::string keys_;
  std::string replies_;
  std::atomic<bool> decided_ = false;
  // While a store has this:
  std::function<void()> wake_;
  std::shared_ptr<PendingBatch> self_;
};

/// Batches used in turn, so that one takes no memory each time. Not thread-safe.
class PendingBatches {
 public:
  /// An empty one.
  std::shared_ptr<PendingBatch> take();
  /// REQUIRES: it is not with a store.
  void give_back(std::shared_ptr<PendingBatch> batch);

 private:
  static constexpr std::size_t kMaxKept = 64;

  std::vector<std::shared_ptr<PendingBatch>> kept_;
};

}  // namespace sluice::resp
