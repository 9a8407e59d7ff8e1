#include "state/hub_download.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "base/log.h"
#include "base/printable.h"
#include "base/text/text.h"
#include "http/web_client.h"
#include "state/hub_listing.h"
#include "store/encoding/digest.h"
#include "store/fetch_file.h"
#include "store/file.h"
#include "store/servers/hugging_face.h"

namespace tessera::state {
namespace {

constexpr std::string_view kZero("\0", 1);  // what git puts between a blob's size and its bytes
constexpr const char* kIndex = "model.safetensors.index.json";

// Of one file of the cache, as huggingface_hub's: two processes don't write the same file. Where the file system knows no locks, or
// another user owns the lock, it locks nothing.
class FileLock {
 public:
  FileLock(const std::string& path, const std::string& what) : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (fd_ < 0 || ::flock(fd_, LOCK_EX | LOCK_NB) == 0) return;
    log_line(fmt::format("waiting for another process that fetches {}", what));
    while (::flock(fd_, LOCK_EX) != 0 && errno == EINTR) {
      // a signal came
    }
  }
  ~FileLock() {
    if (fd_ >= 0) ::close(fd_);
  }
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;

 private:
  int fd_;
};

class ModelDownload {
 public:
  ModelDownload(const HubModel& model, const std::string& cache, const std::string& where)
      : model_(model),
        cache_(cache),
        where_(where),
        folder_(store::join_path(cache, hub_folder(model.name))),
        client_(options()) {}

  std::string run() {
    const HubListing listing = list();
    for (const HubFile* file : wanted(listing)) {
      fetch(*file, listing.commit);
      show(*file, listing.commit);
    }
    if (model_.revision != listing.commit) {
      const std::string ref = store::join_path(folder_, "refs/" + model_.revision);
      files_.make_directories(store::parent_path(ref));
      store::write_atomic(files_, ref, listing.commit);
    }
    return listing.commit;
  }

 private:
  static http::WebOptions options() {
    http::WebOptions options;
    options.token = store::hub_token();
    options.connect_timeout = std::chrono::seconds(10);
    return options;
  }

  HubListing list();
  std::vector<const HubFile*> wanted(const HubListing& listing) const;
  void fetch(const HubFile& file, const std::string& commit);
  bool is_whole(const HubFile& file, const std::string& path) const;
  void show(const HubFile& file, const std::string& commit) const;
  std::string blob(const HubFile& file) const { return store::join_path(folder_, "blobs/" + file.hash); }
  [[noreturn]] void refuse(const http::WebReply& reply, const std::string& url) const;

  const HubModel& model_;
  const std::string cache_, where_, folder_;
  http::WebClient client_;
  store::FileSystem& files_ = store::local_files();
};

// Why the server gives nothing. It says "401" of models that are not there too, so that nobody can tell private ones from them.
void ModelDownload::refuse(const http::WebReply& reply, const std::string& url) const {
  const bool known = reply.status == 401 || reply.status == 403 || reply.status == 404;
  if (!known) throw data_error(fmt::format("the server answers {}", reply.status), url);
  const std::string tag = missing_tag(model_.name);
  const bool revision = reply.status == 404 && reply.body.find("evision") != std::string::npos;
  throw usage_error(
      revision ? fmt::format("`{}` has no revision {}", model_.name, model_.revision)
               : fmt::format("{} has no model `{}`, or does not give it to everybody", store::hub_endpoint(), model_.name),
      where_,
      revision      ? "leave out revision=…, or take a branch, a tag or a commit of it"
      : tag.empty() ? "its page shows its exact name; a model behind a form needs an account: set HF_TOKEN (hf auth login)"
                    : tag);
}

HubListing ModelDownload::list() {
  const std::string url = fmt::format("{}/api/models/{}/revision/{}?blobs=true", store::hub_endpoint(), model_.name,
                                      client_.escaped(model_.revision));
  for (int tried = 1;; ++tried) {
    const http::WebReply reply = client_.request(url, "");
    if (reply.status == 200) return parse_hub_listing(reply.body, url);
    if (reply.status < 500 || tried == store::kFetchTries) refuse(reply, url);
    store::wait_before_trying_again(tried);
  }
}

std::vector<const HubFile*> ModelDownload::wanted(const HubListing& listing) const {
  std::vector<const HubFile*> out;
  const auto add = [&](std::string_view name) {
    const HubFile* file = listing.find(name);
    if (file) out.push_back(file);
    return file != nullptr;
  };
  if (!add("config.json")) {
    throw usage_error(fmt::format("`{}` has no config.json", model_.name), where_,
                      "models of timm's and ViTs of Hugging Face's have one");
  }
  add("preprocessor_config.json");
  if (add("model.safetensors")) return out;
  if (add(kIndex)) {
    for (const HubFile& file : listing.files) {
      if (file.name.starts_with("model-") && file.name.ends_with(".safetensors")) out.push_back(&file);
    }
    return out;
  }
  if (add("pytorch_model.bin")) return out;
  throw usage_error(fmt::format("`{}` has no model.safetensors and no pytorch_model.bin", model_.name), where_,
                    "take a repository that has its weights in one of them");
}

bool ModelDownload::is_whole(const HubFile& file, const std::string& path) const {
  const auto info = files_.info(path);
  if (!info || info->size != file.size) return false;
  const store::Bytes bytes = files_.map(path);
  const std::string_view text(reinterpret_cast<const char*>(bytes.data.data()), bytes.size());
  const std::string hash = file.large ? store::to_hex(store::Sha256().add(bytes.data).finish())
                                      : store::to_hex(store::sha1({fmt::format("blob {}", file.size), kZero, text}));
  return hash == file.hash;
}

// The blob, once and whole.
void ModelDownload::fetch(const HubFile& file, const std::string& commit) {
  const std::string to = blob(file), locks = store::join_path(cache_, ".locks/" + hub_folder(model_.name));
  files_.make_directories(store::parent_path(to));
  files_.make_directories(locks);
  const std::string what = fmt::format("{}/{}", model_.name, file.name);
  const FileLock lock(store::join_path(locks, file.hash + ".lock"), what);
  if (files_.info(to)) return;
  const std::string url = fmt::format("{}/{}/resolve/{}/{}", store::hub_endpoint(), model_.name, commit, file.name);
  const std::string partial = to + ".incomplete";
  store::fetch_file(client_,
                    {.what = what,
                     .url = url,
                     .shown = url,
                     .size = file.size,
                     .lister = "the Hub lists",
                     .is_whole = [&](const std::string& path) { return is_whole(file, path); },
                     .refuse = [&](const http::WebReply& reply) { refuse(reply, url); }},
                    partial);
  files_.rename(partial, to);
}

// The file under its name among those of the commit: a link to the blob, or where the file system has none the blob itself.
void ModelDownload::show(const HubFile& file, const std::string& commit) const {
  namespace fs = std::filesystem;
  const std::string path = store::join_path(folder_, fmt::format("snapshots/{}/{}", commit, file.name));
  if (files_.info(path)) return;
  files_.make_directories(store::parent_path(path));
  std::error_code failed;
  fs::remove(path, failed);  // a link to nothing
  fs::create_symlink("../../blobs/" + file.hash, path, failed);
  if (failed && !files_.info(path)) files_.rename(blob(file), path);
}

}  // namespace

std::string missing_tag(const std::string& name) {
  constexpr std::string_view kTimms = "timm/";
  // timm's own names have small letters, digits and _ alone; others there, as timm/ViT-B-16-SigLIP, are open_clip's.
  constexpr std::string_view kLetters = "abcdefghijklmnopqrstuvwxyz0123456789_";
  if (!name.starts_with(kTimms) || name.find_first_not_of(kLetters, kTimms.size()) != std::string::npos) return "";
  return fmt::format(
      "timm's models have a tag there, as resnet50.a1_in1k: timm.list_pretrained(\"{}.*\") lists those of this one",
      name.substr(kTimms.size()));
}

std::string hub_folder(std::string name) {
  if (const size_t slash = name.find('/'); slash != std::string::npos) name.replace(slash, 1, "--");
  return "models--" + name;
}

std::string download_model(const HubModel& model, const std::string& cache, const std::string& where) {
  return ModelDownload(model, cache, where).run();
}

}  // namespace tessera::state
