#include "pjrt/install/install.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "http/web_client.h"
#include "pjrt/install/package_index.h"
#include "store/checksums.h"
#include "store/encoding/zip_archive.h"
#include "store/fetch_file.h"
#include "store/file.h"
#include "store/local/disk_room.h"
#include "store/local/lock.h"
#include "store/small_file.h"

namespace tessera::plugins {
namespace {

namespace fs = std::filesystem;

constexpr const char* kRecord = "installed.json";
// Wheels differ from one Python to the next, whichever is here: the pinned ones are these.
constexpr const char* kPinnedFor = "--only-binary :all: --python-version 3.11";
constexpr uint64_t kMaxUnpacked = uint64_t{16} << 30;  // of one wheel

std::string title(const Wheel& wheel) { return fmt::format("{} {}", wheel.name, wheel.version); }

// "nvidia_cublas-13.10.0.20-": how a wheel's file name begins (PEP 427).
std::string file_prefix(const Wheel& wheel) {
  std::string name = wheel.name;
  std::ranges::replace(name, '-', '_');
  return fmt::format("{}-{}-", name, wheel.version);
}

bool has_hash(const std::string& path, const Wheel& wheel) {
  store::FileSystem& files = store::local_files();
  const auto info = files.info(path);
  return info && !info->directory && store::to_hex(store::sha256_of(files, path)) == wheel.sha256;
}

// Where a wheel's entry belongs below site-packages: what is in its .data folder is laid out by kind (PEP 427). Nothing for what is
// no part of a package.
std::optional<std::string> place_of(const std::string& name) {
  const std::vector<std::string> parts = split(name, '/');
  if (!parts[0].ends_with(".data")) return name;
  if (parts.size() < 3 || (parts[1] != "purelib" && parts[1] != "platlib")) return std::nullopt;
  return name.substr(parts[0].size() + 1 + parts[1].size() + 1);
}

class Installation {
 public:
  Installation(pjrt::Platform platform, const std::vector<Wheel>& wheels, const InstallOptions& options)
      : wheels_(wheels),
        options_(options),
        to_(options.to.empty() ? pjrt::installed_plugins() : options.to),
        final_(store::join_path(to_, pjrt::platform_name(platform))),
        work_(final_ + ".partial"),
        downloads_(store::join_path(to_, "downloads")) {}

  Installed run() {
    if (to_.empty()) throw usage_error("there is no home directory to install into", {}, "name a directory: --to DIR");
    files_.make_directories(to_);
    const store::DirectoryLock lock(to_);
    if (const auto before = read_record(final_); before && before->wheels == wheels_) return {final_, wheels_, true};
    check_room();
    // Everything is here before anything is unpacked.
    std::vector<std::string> paths;
    for (const Wheel& wheel : wheels_) paths.push_back(options_.wheels.empty() ? fetch(wheel) : find(wheel));
    if (files_.info(work_)) store::remove_tree(files_, work_);
    files_.make_directories(work_);
    for (size_t i = 0; i < wheels_.size(); ++i) unpack(wheels_[i], paths[i]);
    write_record();
    if (files_.info(final_)) {
      files_.exchange(work_, final_);
      files_.sync_directory(to_);
      store::remove_tree(files_, work_);
    } else {
      files_.rename(work_, final_);
      files_.sync_directory(to_);
    }
    if (files_.info(downloads_)) store::remove_tree(files_, downloads_);
    return {final_, wheels_, false};
  }

  static std::optional<Installed> read_record(const std::string& directory) {
    store::FileSystem& files = store::local_files();
    const std::string path = store::join_path(directory, kRecord);
    if (!files.info(path)) return std::nullopt;
    const JsonResult json = read_json(store::read_small_file(files, path));
    Installed out{directory, {}, true};
    try {
      for (const nlohmann::json& wheel : json.value.at("wheels"))
        out.wheels.push_back({.name = wheel.at("name").get<std::string>(),
                              .version = wheel.at("version").get<std::string>(),
                              .sha256 = wheel.at("sha256").get<std::string>()});
    } catch (const nlohmann::json::exception&) {
      return std::nullopt;  // it is none of ours: installed anew
    }
    return out;
  }

 private:
  // Wheels and what they hold are on the disk at the same time. What an earlier try left is used, or removed first.
  void check_room() const {
    int64_t fetched = 0, unpacked = 0;
    for (const Wheel& wheel : wheels_) {
      unpacked += wheel.unpacked;
      if (!options_.wheels.empty()) continue;
      const std::string path = download_path(wheel);
      int64_t there = 0;
      for (const std::string& file : {path, partial_path(wheel)}) {
        if (const auto info = files_.info(file)) there = std::max(there, static_cast<int64_t>(info->size));
      }
      fetched += std::max<int64_t>(0, wheel.bytes - there);
    }
    const int64_t left = files_.info(work_) ? store::bytes_below(files_, work_) : 0;
    const auto room = store::free_bytes(to_);
    if (!room || *room + left >= fetched + unpacked) return;
    const auto size = [](int64_t bytes) { return human_bytes(static_cast<double>(bytes)); };
    throw data_error(fmt::format("{} more must be free in `{}`: the plugin needs {}{}, and its disk has {} left",
                                 size(fetched + unpacked - *room - left), to_,
                                 fetched > 0 ? size(fetched) + " for what is fetched and " : "",
                                 size(unpacked) + (fetched > 0 ? " unpacked" : ""), size(*room + left)),
                     {}, "make room, or choose a directory of another disk: --to DIR");
  }

  std::string download_path(const Wheel& wheel) const { return store::join_path(downloads_, wheel.sha256 + ".whl"); }
  std::string partial_path(const Wheel& wheel) const { return download_path(wheel) + ".incomplete"; }

  // The wheel among files that the user brought.
  std::string find(const Wheel& wheel) const {
    std::string other;
    for (const store::FileInfo& entry : files_.list(options_.wheels)) {
      if (!entry.name.starts_with(file_prefix(wheel)) || !entry.name.ends_with(".whl")) continue;
      std::string path = store::join_path(options_.wheels, entry.name);
      if (has_hash(path, wheel)) return path;
      other = path;
    }
    if (!other.empty())
      throw data_error(fmt::format("`{}` is not the pinned wheel of {}: its SHA-256 differs", other, title(wheel)));
    throw data_error(fmt::format("`{}` has no wheel of {}", options_.wheels, title(wheel)), "--from",
                     fmt::format("pip download --no-deps {}=={} {}", wheel.name, wheel.version, kPinnedFor));
  }

  // The wheel from the index.
  std::string fetch(const Wheel& wheel) {
    files_.make_directories(downloads_);
    std::string path = download_path(wheel);
    if (has_hash(path, wheel)) return path;
    try {
      if (!client_) {
        settings_ = index_settings();
        http::WebOptions web;
        web.authorities = settings_.authorities;
        web.connect_timeout = std::chrono::seconds(10);
        client_ = std::make_unique<http::WebClient>(web);
      }
      const IndexFile file = find_wheel(*client_, settings_, wheel);
      const std::string shown = without_credentials(file.url);
      store::fetch_file(*client_,
                        {.what = title(wheel),
                         .url = file.url,
                         .shown = shown,
                         .size = file.size,
                         .lister = "is pinned",
                         .is_whole = [&](const std::string& partial) { return has_hash(partial, wheel); },
                         .refuse =
                             [&](const http::WebReply& reply) {
                               throw data_error(fmt::format("the server answers {}", reply.status), shown);
                             }},
                        partial_path(wheel));
    } catch (const http::NotReached& error) {
      throw data_error(
          fmt::format("the package index cannot be reached: {}", one_line(error.message())),
          without_credentials(settings_.urls.front()),
          fmt::format("PIP_INDEX_URL names a mirror, https_proxy a proxy. Without a network: on a machine that has one, `pip "
                      "download --no-deps {} {}`, then here --from the folder",
                      every_requirement(), kPinnedFor));
    }
    files_.rename(partial_path(wheel), path);
    return path;
  }

  std::string every_requirement() const {
    std::vector<std::string> out;
    for (const Wheel& wheel : wheels_) out.push_back(fmt::format("{}=={}", wheel.name, wheel.version));
    return join(out, " ");
  }

  void unpack(const Wheel& wheel, const std::string& path) {
    const store::ZipArchive archive(path, "a wheel");
    uint64_t total = 0;
    for (uint64_t i = 0; i < archive.size(); ++i) {
      const std::string name = archive.name(i);
      if (name.ends_with('/')) continue;
      const auto place = place_of(name);
      if (!place) continue;
      check_name(wheel, archive, i);
      total += archive.unpacked_size(i);
      if (total > kMaxUnpacked)
        throw data_error(
            fmt::format("{} unpacks to more than {}", title(wheel), human_bytes(static_cast<double>(kMaxUnpacked))), path);
      const std::string to = store::join_path(work_, *place);
      if (made_.insert(store::parent_path(to)).second) files_.make_directories(store::parent_path(to));
      log_status(fmt::format("unpack {}  {}", title(wheel), one_line(*place)));
      const auto out = files_.create(to);
      archive.read(i, [&](std::span<const std::byte> part) { out->write(part); });
      out->sync();
      out->close();
      if (archive.executable(i))
        fs::permissions(to, fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec, fs::perm_options::add);
    }
    log_status("");
  }

  static void check_name(const Wheel& wheel, const store::ZipArchive& archive, uint64_t index) {
    const std::string name = archive.name(index);
    const std::vector<std::string> parts = split(name, '/');
    const bool leaves =
        std::ranges::any_of(parts, [](const std::string& part) { return part.empty() || part == "." || part == ".."; });
    if (leaves || !archive.regular(index) || name.find('\0') != std::string::npos || name.find('\\') != std::string::npos)
      throw data_error(fmt::format("{} holds `{}`, which is no part of a wheel", title(wheel), one_line(name)));
  }

  void write_record() const {
    nlohmann::ordered_json json = {{"wheels", nlohmann::ordered_json::array()}};
    for (const Wheel& wheel : wheels_)
      json["wheels"].push_back({{"name", wheel.name}, {"version", wheel.version}, {"sha256", wheel.sha256}});
    store::write_atomic(files_, store::join_path(work_, kRecord), json.dump(2) + "\n");
  }

  const std::vector<Wheel>& wheels_;
  const InstallOptions& options_;
  const std::string to_, final_, work_, downloads_;
  store::FileSystem& files_ = store::local_files();
  IndexSettings settings_;
  std::unique_ptr<http::WebClient> client_;
  std::set<std::string> made_;
};

}  // namespace

Installed install_plugin(pjrt::Platform platform, const std::vector<Wheel>& wheels, const InstallOptions& options) {
  return Installation(platform, wheels, options).run();
}

std::optional<Installed> installed_plugin(pjrt::Platform platform, const std::string& to) {
  const std::string directory = to.empty() ? pjrt::installed_plugins() : to;
  if (directory.empty()) return std::nullopt;
  return Installation::read_record(store::join_path(directory, pjrt::platform_name(platform)));
}

}  // namespace tessera::plugins
