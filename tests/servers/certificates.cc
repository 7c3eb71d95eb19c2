#include "servers/certificates.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>

#include "servers/temporary_folder.h"

namespace sluice::servers {
namespace {

class Workshop {
 public:
  Workshop() {
    sign("ca", "-addext basicConstraints=critical,CA:TRUE");
    sign("stranger", "-addext basicConstraints=critical,CA:TRUE");
    sign("server", by_ca("DNS:localhost,IP:127.0.0.1"));
    sign("client", by_ca("DNS:client"));
    made_ = {.ca = pem("ca"),
             .server = pem("server"),
             .server_key = key("server"),
             .client = pem("client"),
             .client_key = key("client"),
             .stranger_ca = pem("stranger")};
  }

  const Certificates& made() const { return made_; }

 private:
  std::filesystem::path pem(const std::string& name) const {
    return folder_.path() / (name + ".pem");
  }
  std::filesystem::path key(const std::string& name) const {
    return folder_.path() / (name + ".key");
  }
  std::string by_ca(const std::string& names) const {
    return "-addext basicConstraints=critical,CA:FALSE -addext subjectAltName=" + names + " -CA " +
           pem("ca").native() + " -CAkey " + key("ca").native();
  }

  void sign(const std::string& name, const std::string& options) const {
    const std::string log = folder_.path() / "log";
    const std::string command = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256" +
                                std::string(" -nodes -days 2 -subj /CN=") + name + " -keyout " +
                                key(name).native() + " -out " + pem(name).native() + " " + options +
                                " >" + log + " 2>&1";
    if (std::system(command.c_str()) == 0) return;
    std::ostringstream said;
    said << std::ifstream(log).rdbuf();
    throw std::runtime_error("cannot make a certificate: " + command + "\n" + said.str());
  }

  TemporaryFolder folder_;
  Certificates made_;
};

}  // namespace

const Certificates& certificates() {
  static const Workshop workshop;
  return workshop.made();
}

}  // namespace sluice::servers
