#include "monitor/profile/files.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/error.h"
#include "base/log.h"
#include "monitor/profile/chrome_trace.h"
#include "monitor/profile/summary.h"
#include "monitor/profile/xspace.h"

namespace tessera::profile {
namespace {

// "2026_11_23_06_41_00", as JAX names them.
std::string time_name(int64_t unix_nanoseconds) {
  return fmt::format("{:%Y_%m_%d_%H_%M_%S}", fmt::gmtime(static_cast<std::time_t>(unix_nanoseconds / 1'000'000'000)));
}

std::string file_name(const std::string& host) {
  std::string name = host.empty() ? "localhost" : host;
  std::ranges::replace_if(
      name, [](unsigned char c) { return std::isalnum(c) == 0 && c != '-' && c != '_'; }, '_');
  return name;
}

std::string new_directory(const std::string& parent, const std::string& name, store::FileSystem& files) {
  std::string path = store::join_path(parent, name);
  for (int n = 2; files.info(path); ++n) path = fmt::format("{}_{}", store::join_path(parent, name), n);
  files.make_directories(path);
  return path;
}

}  // namespace

std::string profiles_directory(const std::string& workdir) { return store::join_path(workdir, "plugins/profile"); }

ProfileFiles write_profile(const std::string& workdir, Profile profile, const std::string& suffix, store::FileSystem& files) {
  std::vector<DevicePlane> device;
  std::string xspace;
  try {
    device = read_device(profile);
    xspace = to_xspace(profile);
  } catch (const Error& error) {
    log_warning(error.message() + "; the profile has what the host did");
    device.clear();
    profile.device.clear();
    xspace = to_xspace(profile);
  }
  ProfileFiles out;
  out.table = table(summarise(profile, device), profile.reason);
  out.directory = new_directory(profiles_directory(workdir), time_name(profile.unix_begin) + suffix, files);
  const std::string host = file_name(profile.host);
  out.xplane = store::join_path(out.directory, host + ".xplane.pb");
  out.trace = store::join_path(out.directory, host + ".trace.json.gz");
  out.summary = store::join_path(out.directory, "summary.txt");
  store::write_atomic(files, out.trace, gzip(to_chrome_trace(profile, device)));
  store::write_atomic(files, out.summary, out.table + "\n");
  store::write_atomic(files, out.xplane, xspace);  // the last: who finds it finds all
  return out;
}

}  // namespace tessera::profile
