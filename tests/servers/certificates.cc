#include "servers/certificates.h"

#include <cstdlib>
#include <stdexcept>
#include <string>

#include "servers/temporary_folder.h"

namespace sluice::servers {
namespace {

void sign(const TemporaryFolder& folder, const std::string& name, const std::string& options) {
  const std::string command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256" +
                              std::string(" -nodes -days 2 -subj /CN=") + name + " -keyout " +
                              folder.path(name + ".key") + " -out " + folder.path(name + ".pem") +
                              " " + options + " >" + folder.path("log") + " 2>&1";
  if (std::system(command.c_str()) == 0) return;
  throw std::runtime_error("cannot make a certificate: " + command + "\n" + folder.read("log"));
}

Certificates make(const TemporaryFolder& folder) {
  const std::string by_ca = "-CA " + folder.path("ca.pem") + " -CAkey " + folder.path("ca.key") +
                            " -addext basicConstraints=critical,CA:FALSE -addext subjectAltName=";
  sign(folder, "ca", "-addext basicConstraints=critical,CA:TRUE");
  sign(folder, "stranger", "-addext basicConstraints=critical,CA:TRUE");
  sign(folder, "server", by_ca + "DNS:localhost,IP:127.0.0.1");
  sign(folder, "client", by_ca + "DNS:client");
  return {.ca = folder.path("ca.pem"),
          .server = folder.path("server.pem"),
          .server_key = folder.path("server.key"),
          .client = folder.path("client.pem"),
          .client_key = folder.path("client.key"),
          .stranger_ca = folder.path("stranger.pem")};
}

}  // namespace

const Certificates& certificates() {
  static const TemporaryFolder folder;
  static const Certificates made = make(folder);
  return made;
}

}  // namespace sluice::servers
