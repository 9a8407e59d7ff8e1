#include "pjrt/plugin/tpu_holders.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <optional>
#include <sstream>
#include <string_view>
#include <system_error>

#include "base/printable.h"
#include "base/text/digits.h"
#include "base/text/text.h"

namespace tessera::pjrt {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxCommand = 120;

// The group of a chip; /dev/vfio/vfio is of no device.
bool is_chip(std::string_view file) {
  constexpr std::string_view kAccel = "/dev/accel", kVfio = "/dev/vfio/";
  return file.starts_with(kAccel) || (file.starts_with(kVfio) && parse_digits(file.substr(kVfio.size())).has_value());
}

// As its command line has it, else its short name.
std::string command_of(const fs::path& process) {
  // By an operator that takes failures as an end: a process may end while it is read, and an iterator over the file throws.
  std::ostringstream read;
  read << std::ifstream(process / "cmdline", std::ios::binary).rdbuf();
  std::string text = read.str();
  std::ranges::replace(text, '\0', ' ');
  if (trim(text).empty()) std::getline(std::ifstream(process / "comm"), text);
  text = one_line(trim(text));
  return text.size() <= kMaxCommand ? text : printable(text.substr(0, kMaxCommand)) + "…";
}

}  // namespace

std::string TpuHolders::text() const {
  std::vector<std::string> parts;
  for (const Process& process : processes) parts.push_back(fmt::format("process {} ({})", process.pid, process.command));
  return join(parts, ", ");
}

std::string TpuHolders::help(std::string_view reason) const {
  if (!processes.empty())
    return fmt::format("{} ha{} this machine's TPU: end {} first, or wait", text(), processes.size() == 1 ? "s" : "ve",
                       processes.size() == 1 ? "it" : "them");
  // libtpu's words. The file alone says nothing: it may stay behind and hinder nobody.
  const auto speaks_of = [&](std::string_view words) { return reason.find(words) != std::string_view::npos; };
  if (!lock_file || !(speaks_of("lockfile") || speaks_of("already in use"))) return "";
  if (!all_seen)
    return "another user's process may have the TPU: `sudo lsof /dev/accel* /dev/vfio/* /tmp/libtpu_lockfile` names it; where "
           "it names none, `sudo rm /tmp/libtpu_lockfile`";
  return "no process that is seen here has the TPU, and /tmp/libtpu_lockfile is left of one: `sudo rm /tmp/libtpu_lockfile`; "
         "one outside of this container is not seen";
}

TpuHolders find_tpu_holders(const std::string& proc, const std::string& lock_file) {
  TpuHolders holders;
  std::error_code error;
  holders.lock_file = fs::exists(lock_file, error);
  for (fs::directory_iterator entry(proc, error), end; !error && entry != end; entry.increment(error)) {
    const auto pid = parse_digits(entry->path().filename().native());
    if (!pid || *pid == ::getpid()) continue;
    std::error_code unread;
    fs::directory_iterator file(entry->path() / "fd", unread);
    if (unread == std::errc::permission_denied) holders.all_seen = false;
    for (; !unread && file != fs::directory_iterator(); file.increment(unread)) {
      std::error_code gone;
      const std::string target = fs::read_symlink(file->path(), gone).native();
      if (!is_chip(target) && target != lock_file) continue;
      holders.processes.push_back({*pid, command_of(entry->path())});
      break;
    }
  }
  std::ranges::sort(holders.processes, {}, &TpuHolders::Process::pid);
  return holders;
}

}  // namespace tessera::pjrt
