#include "servers/memcached_server.h"

#include <unistd.h>

#include <iterator>
#include <utility>

#include "servers/certificates.h"
#include "servers/socket.h"

namespace sluice::servers {

MemcachedServer::MemcachedServer(MemcachedOptions options)
    : Server(free_port()), tls_(options.tls), plain_port_(options.tls ? free_port() : port()) {
  std::vector<std::string> command{
      "memcached", "-U", "0", "-t", "1", "-l", "127.0.0.1:" + std::to_string(port())};
  if (::geteuid() == 0)
    command.insert(command.end(), {"-u", "root"});  // It does not run as root otherwise.
  if (options.tls) {
    const Certificates& made = certificates();
    command.insert(command.end(),
                   {"-l", "notls:127.0.0.1:" + std::to_string(plain_port_), "-Z", "-o",
                    "ssl_chain_cert=" + made.server.native() + ",ssl_key=" +
                        made.server_key.native() + ",ssl_ca_cert=" + made.ca.native() +
                        ",ssl_verify_mode=" + (options.client_certificates ? "2" : "0")});
  }
  command.insert(command.end(), std::make_move_iterator(options.arguments.begin()),
                 std::make_move_iterator(options.arguments.end()));
  start(std::move(command));
}

std::string MemcachedServer::url() const {
  return "memcached://127.0.0.1:" + std::to_string(port()) + (tls_ ? "?tls=yes" : "");
}

std::string MemcachedServer::command(std::string_view lines) const {
  Peer peer = peer_at(plain_port_);
  // The reply to the no-op marks the end of the replies before it.
  peer.send(std::string(lines) + "mn\r\n");
  std::string answer;
  for (std::string line = read_line(peer); line != "MN"; line = read_line(peer)) {
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
