#pragma once

#include <span>
#include <string>
#include <string_view>

#include "service/server_context.h"
#include "testing/scripted_store.h"

namespace sluice {

// For the tests of service.

/// Writes nothing.
class NoReplies final : public ReplyWriter {
 public:
  void write_decisions(std::span<const ReplySlot>, std::span<const Decision>,
                       std::string&) override {}
  void write_unavailable(const ReplySlot&, std::string_view, std::string&) override {}
  void write_together(const ReplySlot&, const Decision&, std::span<const Decision>,
                      std::string&) override {}
  void write_refused(const ReplySlot&, std::string_view, std::string&) override {}
};

/// Has what was added to the thread's batch decided, also by a store that answers when it is told.
inline void ask_batch(ThreadContext& thread, ScriptedStore& store, ReplyWriter& replies) {
  std::string output;
  const auto wake = [] {};
  const auto pending = thread.batch.ask(replies, wake, output);
  if (pending == nullptr) return;
  while (!pending->is_ready() && store.answer()) {
  }
  pending->get().write(replies, thread.counters, output);
}
inline void ask_batch(ThreadContext& thread, ScriptedStore& store) {
  NoReplies replies;
  ask_batch(thread, store, replies);
}

}  // namespace sluice
