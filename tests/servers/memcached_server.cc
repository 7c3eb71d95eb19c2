#include "servers/memcached_server.h"

#include <unistd.h>

#include <utility>

#include "servers/socket.h"

namespace sluice::servers {

MemcachedServer::MemcachedServer(std::vector<std::string> arguments) : Server(free_port()) {
  std::vector<std::string> command{"memcached", "-l", "127.0.0.1", "-p", std::to_string(port()),
                                   "-U",        "0",  "-t",        "1"};
  if (::geteuid() == 0) command.insert(command.end(), {"-u", "root"});  // It refuses to be root.
  command.insert(command.end(), std::make_move_iterator(arguments.begin()),
                 std::make_move_iterator(arguments.end()));
  start(std::move(command));
}

std::string MemcachedServer::url() const {
  return "memcached://127.0.0.1:" + std::to_string(port());
}

std::string MemcachedServer::command(std::string_view lines) const {
  Socket socket = Socket::to_port(port());
  // The no-op's answer marks the end of whatever was answered before it.
  socket.send(std::string(lines) + "mn\r\n");
  std::string answer;
  for (std::string line = socket.read_line(); line != "MN"; line = socket.read_line()) {
    answer += line + "\r\n";
  }
  return answer;
}

std::string MemcachedServer::stat(const std::string& field) const {
  const std::string all = command("stats\r\n");
  const std::string name = "STAT " + field + " ";
  const std::size_t begin = all.find(name);
  if (begin == std::string::npos) return {};
  const std::size_t value = begin + name.size();
  return all.substr(value, all.find('\r', value) - value);
}

bool MemcachedServer::answers() {
  return command("version\r\n").starts_with("VERSION");
}

}  // namespace sluice::servers
