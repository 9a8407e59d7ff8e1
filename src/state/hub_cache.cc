#include "state/hub_cache.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/printable.h"
#include "base/system/environment.h"
#include "base/text/call.h"
#include "base/text/text.h"
#include "http/web_client.h"
#include "models/family.h"
#include "state/hub_download.h"
#include "state/weight_file.h"
#include "store/file.h"
#include "store/servers/hugging_face.h"
#include "store/small_file.h"

namespace tessera::state {
namespace {

constexpr std::string_view kTimm = "timm/";

// Of a model, a revision or a commit: nothing that leads out of the folder.
bool is_plain(std::string_view text) {
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
  };
  return !text.empty() && std::ranges::all_of(text, allowed) && text.find("..") == std::string_view::npos && text != ".";
}

bool is_plain_path(std::string_view text) {
  const size_t slash = text.find('/');
  if (slash == std::string_view::npos) return is_plain(text);
  return is_plain(text.substr(0, slash)) && is_plain_path(text.substr(slash + 1));
}

// vit_tiny_patch16_224.augreg_in21k, or without what it was trained on.
bool is_timms(std::string_view name) { return models::find_named(name.substr(0, name.find('.'))).architecture != nullptr; }

HubModel parse_hub_call(const std::string& text, const std::string& where) {
  const Call call = parse_call(text, where);
  CallReader reader(call, where);
  HubModel model;
  model.name = reader.text("name");
  model.revision = reader.text("revision", model.revision);
  reader.finish();
  if (is_timms(model.name)) model.name.insert(0, kTimm);
  if (!is_plain_path(model.name) || std::ranges::count(model.name, '/') > 1)
    reader.fail("a model of the Hub is OWNER/NAME", "as hub(timm/vit_tiny_patch16_224.augreg_in21k)");
  if (!is_plain_path(model.revision)) reader.fail(fmt::format("`{}` is no revision", model.revision));
  return model;
}

// The command that puts it there. Of timm's repositories it leaves out the same weights in torch's format.
std::string download_line(const HubModel& model) {
  return fmt::format("hf download {}{}{}", model.name, model.name.starts_with(kTimm) ? " config.json model.safetensors" : "",
                     model.revision == "main" ? "" : " --revision " + model.revision);
}

// Names in the cache that begin as this one does: other weights of the same model.
std::vector<std::string> others(const std::string& cache, const HubModel& model) {
  store::FileSystem& files = store::local_files();
  std::vector<std::string> names;
  const size_t slash = model.name.find('/');
  const size_t tag = model.name.find('.', slash == std::string::npos ? 0 : slash);
  const std::string begin = hub_folder(model.name.substr(0, tag)) + ".";
  if (!files.info(cache)) return names;
  for (const store::FileInfo& entry : files.list(cache)) {
    if (!entry.directory || !entry.name.starts_with(begin) || entry.name == hub_folder(model.name)) continue;
    names.push_back(fmt::format("hub({}{})", model.name.substr(0, tag), entry.name.substr(begin.size() - 1)));
  }
  std::ranges::sort(names);
  return names;
}

[[noreturn]] void fail_absent(const HubModel& model, const std::string& what, const std::string& where,
                              const std::string& why = {}) {
  const std::string cache = hub_cache();
  const std::vector<std::string> there = others(cache, model);
  const std::string tag = missing_tag(model.name);
  throw usage_error(fmt::format("`{}` {} in the Hugging Face cache {}{}", model.name, what, one_line(cache),
                                why.empty() ? "" : ", and " + one_line(why)),
                    where,
                    fmt::format("{}{}{}", tag.empty() ? fmt::format("fetch it with `{}`", download_line(model)) : tag,
                                there.empty() ? "" : fmt::format("; the cache has {}", fmt::join(there, ", ")),
                                cache.empty() ? "; set HF_HOME" : ""));
}

// The commit that the cache has of the revision; empty where it has none.
std::string commit_of(const std::string& folder, const std::string& revision) {
  store::FileSystem& files = store::local_files();
  const std::string ref = store::join_path(folder, "refs/" + revision);
  if (const auto info = files.info(ref); info && !info->directory) {
    std::string commit(trim(store::read_small_file(files, ref)));
    if (!is_plain(commit)) throw data_error("names no commit", ref, "remove the folder of the model and fetch it again");
    return commit;
  }
  return is_plain(revision) && files.info(store::join_path(folder, "snapshots/" + revision)) ? revision : "";
}

// Of what a model is made of; empty where all of it is there.
std::string what_is_absent(const std::string& folder, const std::string& commit, const std::string& revision) {
  if (commit.empty()) return revision == "main" ? "is not" : "has no revision " + revision;
  const std::string snapshot = store::join_path(folder, "snapshots/" + commit);
  if (!store::local_files().info(store::join_path(snapshot, "config.json"))) return "has no config.json";
  return weight_file_in(snapshot).empty() ? "has no model.safetensors" : "";
}

}  // namespace

std::string hub_cache() {
  for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
    if (std::string path = environment_variable(name); !path.empty()) return path;
  }
  const std::string home = store::hugging_face_home();
  return home.empty() ? "" : store::join_path(home, "hub");
}

std::string in_hub_cache(const std::string& from, const std::string& where) {
  store::FileSystem& files = store::local_files();
  HubModel model;
  if (files.info(from)) return from;
  if (from.starts_with("hub(")) {
    model = parse_hub_call(from, where);
  } else if (from.find('/') == std::string::npos && !is_weight_file(from) && is_timms(from)) {
    model.name = std::string(kTimm) + from;
  } else {
    return from;
  }
  const std::string cache = hub_cache();
  const std::string folder = store::join_path(cache, hub_folder(model.name));
  std::string commit = files.info(folder) ? commit_of(folder, model.revision) : "";
  std::string absent = what_is_absent(folder, commit, model.revision);
  if (!absent.empty()) {
    if (cache.empty()) fail_absent(model, absent, where);
    if (store::hub_offline()) fail_absent(model, absent, where, "HF_HUB_OFFLINE forbids to fetch it");
    try {
      commit = download_model(model, cache, where);
    } catch (const http::NotReached& error) {
      fail_absent(model, absent, where, "the Hub cannot be reached: " + error.message());
    }
    absent = what_is_absent(folder, commit, model.revision);
    if (!absent.empty()) fail_absent(model, absent, where);
  }
  return store::join_path(folder, "snapshots/" + commit);
}

std::string other_hub_name(const std::string& from) {
  if (from.find("://") != std::string::npos) return "";
  for (const std::string_view prefix : {"hf-hub:", "hf_hub:", "hf:", "hub:"}) {
    if (from.starts_with(prefix)) return from.size() == prefix.size() ? "OWNER/NAME" : from.substr(prefix.size());
  }
  return from.starts_with(kTimm) && is_plain_path(from) ? from : "";
}

}  // namespace tessera::state
