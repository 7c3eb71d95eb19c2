#include "replay/run_command.h"

#include <ostream>

#include "core/exit_status.h"

namespace sluice::replay {

int run_command(std::string_view command, std::ostream& err, const std::function<int()>& run) {
  int status = kFailed;
  std::string sentence;
  try {
    return run();
  } catch (const ReplayError& error) {
    status = error.status();
    sentence = error.what();
  } catch (const std::exception& error) {
    sentence = error.what();
  }
  err << command << ": " << sentence << '\n' << std::flush;
  return status;
}

void print(std::string_view what, const std::string& text, std::ostream& out) {
  if (out << text << std::flush) return;
  throw ReplayError(kFailed, std::string(what) + " cannot be written");
}

}  // namespace sluice::replay
