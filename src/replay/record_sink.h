#pragma once

#include "replay/key_template.h"
#include "replay/record.h"

namespace sluice::replay {

/// Takes the records that a Feed reads.
class RecordSink {
 public:
  virtual ~RecordSink() = default;

  /// The next records come from this reader, which has not read a line yet: the sink may look up
  /// the slots of further fields.
  virtual void begin_file(LineReader& reader) { static_cast<void>(reader); }

  /// Adds one record, whose fields are valid during the call. `key` is bound to the reader.
  virtual void add(const Record& record, const KeyTemplate& key) = 0;
};

}  // namespace sluice::replay
