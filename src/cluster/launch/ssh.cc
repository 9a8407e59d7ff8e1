// ssh:HOSTS: one process on each of several hosts, by the system's ssh.

#include <fmt/format.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include "base/text/text.h"
#include "cluster/launch/launcher.h"
#include "cluster/launch/remote_run.h"

namespace tessera::launch {
namespace {

namespace fs = std::filesystem;

// Of a file with one host a line; what follows # is a comment.
std::vector<std::string> read_list(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw usage_error(fmt::format("cannot read the list of hosts `{}`", path));
  std::vector<std::string> hosts;
  for (std::string line; std::getline(file, line);) {
    const std::string host(trim(std::string_view(line).substr(0, line.find('#'))));
    if (!host.empty()) hosts.push_back(host);
  }
  if (file.bad()) throw usage_error(fmt::format("cannot read the list of hosts `{}`", path));
  return hosts;
}

[[noreturn]] void refuse(const std::string& host) {
  throw usage_error(fmt::format("`{}` is no host", host), {},
                    "write HOST, USER@HOST, HOST:PORT or USER@HOST:PORT, as ssh:a,b or in a file");
}

// Of "user@host:port", "[::1]:22".
RemoteHost host_of(const std::string& text, const std::vector<std::string>& options) {
  for (const char c : text) {
    if (std::isspace(static_cast<unsigned char>(c)) || std::iscntrl(static_cast<unsigned char>(c)) || c == ',') refuse(text);
  }
  std::string host = text, port;
  const size_t colon = text.rfind(':'), bracket = text.rfind(']');
  if (colon != std::string::npos && (bracket == std::string::npos ? text.find(':') == colon : colon > bracket)) {
    host = text.substr(0, colon);
    port = text.substr(colon + 1);
    if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos) refuse(text);
  }
  std::erase_if(host, [](char c) { return c == '[' || c == ']'; });
  if (host.empty() || host[0] == '-' || host.ends_with('@')) refuse(text);
  RemoteHost remote{text, {"ssh", "-T"}};
  remote.shell.insert(remote.shell.end(), options.begin(), options.end());  // the first of two that differ holds
  // No questions, since nobody answers for many hosts, and news of a cut connection after 15 s.
  for (const char* option : {"BatchMode=yes", "ConnectTimeout=10", "ServerAliveInterval=5", "ServerAliveCountMax=3"}) {
    remote.shell.insert(remote.shell.end(), {"-o", option});
  }
  if (!port.empty()) remote.shell.insert(remote.shell.end(), {"-p", port});
  remote.shell.insert(remote.shell.end(), {"--", host, ""});
  return remote;
}

std::vector<RemoteHost> hosts_of(const Request& request) {
  std::error_code error;
  const bool is_file = request.where.find('/') != std::string::npos || fs::is_regular_file(request.where, error);
  const std::vector<std::string> names = is_file ? read_list(request.where) : split(request.where, ',');
  if (request.where.empty()) throw usage_error("no hosts are named", {}, example_of(kSsh));
  std::vector<RemoteHost> hosts;
  std::set<std::string> seen;
  for (const std::string& name : names) {
    hosts.push_back(host_of(name, request.options));
    if (!seen.insert(name).second)
      throw usage_error(fmt::format("`{}` is twice among the hosts", name), {}, "one process runs on each");
  }
  if (hosts.empty()) throw usage_error("no hosts are named", {}, example_of(kSsh));
  return hosts;
}

Plan plan_ssh(const Request& request) { return plan_remote_run(request, hosts_of(request)); }
Exit run_ssh(const Request& request) { return run_on_hosts(request, hosts_of(request)); }

}  // namespace

const Launcher kSsh = {
    "ssh",     "ssh:HOSTS",     "one process on each host: ssh:a,b or ssh:FILE with one USER@HOST:PORT a line",
    "ssh:a,b", /*copies=*/true, plan_ssh,
    run_ssh};

}  // namespace tessera::launch
