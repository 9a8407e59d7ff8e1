// Files of web servers, and of repositories of the Hugging Face Hub: read in parts, over libcurl (http/web_client.h).

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "http/web_client.h"
#include "store/servers/hugging_face.h"
#include "store/servers/object_server.h"
#include "store/servers/version_watch.h"
#include "store/servers/web_answers.h"

namespace tessera::store {
namespace {

bool is_hub(const std::string& url) { return url.starts_with("hf://"); }

// What may not stand in a URL as it is, as %XX; "%" stays: the user's URL is one already. `whole`: of a part of it, in which
// nothing is escaped yet and "?" and "#" are no ends.
std::string escaped_url(std::string_view text, bool whole) {
  std::string out;
  for (const unsigned char c : text) {
    const bool plain =
        c > ' ' && c < 0x7f && std::string_view("\"<>\\^`{|}").find(static_cast<char>(c)) == std::string_view::npos;
    const bool special = whole && (c == '%' || c == '?' || c == '#');
    out += plain && !special ? std::string(1, static_cast<char>(c)) : fmt::format("%{:02X}", c);
  }
  return out;
}

// A part of a path in which "/" is a character like others.
std::string escaped_name(const std::string& text) {
  std::string out = escaped_url(text, true);
  for (size_t at = 0; (at = out.find('/', at)) != std::string::npos;) out.replace(at, 1, "%2F");
  return out;
}

std::string resolve_url(const HubPath& place) {
  return fmt::format("{}/{}{}/resolve/{}/{}", hub_endpoint(), place.kind == "models" ? "" : place.kind + "/", place.name,
                     escaped_name(place.revision), escaped_url(place.path, true));
}

// Clients that wait for their next request, with their connections open. Not freed: see BlockCache in buckets.cc.
class Clients {
 public:
  explicit Clients(http::WebOptions options) : options_(std::move(options)) {}

  template <class Use>
  auto with(Use&& use) {
    std::unique_ptr<http::WebClient> client;
    {
      const std::lock_guard lock(mutex_);
      if (!idle_.empty()) {
        client = std::move(idle_.back());
        idle_.pop_back();
      }
    }
    if (!client) client = std::make_unique<http::WebClient>(options_);
    auto result = use(*client);
    const std::lock_guard lock(mutex_);
    idle_.push_back(std::move(client));
    return result;
  }

 private:
  const http::WebOptions options_;
  std::mutex mutex_;
  std::vector<std::unique_ptr<http::WebClient>> idle_;
};

http::WebOptions options(const std::string& token) {
  http::WebOptions options;
  options.token = token;
  options.connect_timeout = std::chrono::seconds(10);
  return options;
}

// The token goes to the Hub alone, and not to where it sends us.
Clients& clients_for(const std::string& url) {
  static std::mutex mutex;
  static auto& by_token = *new std::map<std::string, Clients>();
  const std::string token = url.starts_with(hub_endpoint() + "/") ? hub_token() : "";
  const std::lock_guard lock(mutex);
  return by_token.try_emplace(token, options(token)).first->second;
}

// libcurl's failures to transfer are over a moment later, or the network is not there.
template <class Use>
http::WebReply transfer(const std::string& url, Use&& use) {
  try {
    return clients_for(url).with(use);
  } catch (const ServerError&) {
    throw;
  } catch (const http::NotReached& error) {
    throw ServerError(error.message(), "the server does not answer: look at its name and at the network", true);
  } catch (const Error& error) {
    throw ServerError(error.message(), "", true);
  }
}

[[noreturn]] void refuse(const http::WebReply& reply, const std::string& url) {
  const std::string status = fmt::format("the server answers {}", reply.status);
  const bool hub = url.starts_with(hub_endpoint() + "/");
  switch (reply.status) {
    case 401:
    case 403:
      throw ServerError(status,
                        hub ? "it is private, behind a form, or not there: look at its name, and set HF_TOKEN (hf auth login)"
                            : "the server does not give it to everybody",
                        false);
    case 404:
    case 410: throw ServerError(status, "there is no such file: look at its name", false);
    case 408:
    case 429: throw ServerError(status, "the server is too busy: start again later", true);
    default: throw ServerError(status, "", reply.status >= 500);
  }
}

std::string header(const http::WebReply& reply, const std::string& name) {
  const auto found = reply.headers.find(name);
  return found == reply.headers.end() ? std::string() : found->second;
}

// What the Hub says of the file wins over what the server says to which it leads.
std::string tag_of(const http::WebReply& reply) {
  for (const char* name : {"x-linked-etag", "etag", "last-modified"}) {
    if (std::string tag = header(reply, name); !tag.empty()) return tag;
  }
  return "";
}

// By what a server tells versions of a file apart.
struct Version {
  Version() = default;
  explicit Version(const http::WebReply& reply) : etag(header(reply, "etag")), changed(header(reply, "last-modified")) {
    if (etag.starts_with("W/")) etag.erase(0, 2);
  }
  // Several machines behind one address may give one file tags of their own; its time is the same on all of them then.
  bool differs_from(const Version& other) const {
    const bool tags = !etag.empty() && !other.etag.empty(), times = !changed.empty() && !other.changed.empty();
    const bool same = (tags && etag == other.etag) || (times && changed == other.changed);
    return (tags || times) && !same;
  }

  std::string etag, changed;
};

struct RangeReply {
  http::WebReply reply;
  int64_t got = 0;
};

// Bytes from `offset` on, also of a server that always sends the whole file.
RangeReply fetch_part(const std::string& url, int64_t offset, std::span<std::byte> out) {
  RangeReply part;
  int64_t skip = 0;
  const http::Download file{
      .url = url,
      .from = offset,
      .begin = [&](int64_t first) { skip = offset - first; },
      .take =
          [&](std::string_view bytes) {
            const auto skipped = std::min(skip, static_cast<int64_t>(bytes.size()));
            skip -= skipped;
            bytes.remove_prefix(static_cast<size_t>(skipped));
            const auto room = static_cast<int64_t>(out.size()) - part.got;
            const auto taken = std::min(room, static_cast<int64_t>(bytes.size()));
            std::copy_n(reinterpret_cast<const std::byte*>(bytes.data()), taken, out.data() + part.got);
            part.got += taken;
            return part.got < static_cast<int64_t>(out.size()) || static_cast<int64_t>(bytes.size()) == taken;
          },
      .until = offset + static_cast<int64_t>(out.size()),
  };
  part.reply = transfer(url, [&](http::WebClient& client) {
    part.got = 0;
    return client.download(file);
  });
  return part;
}

class WebObject final : public ServedObject {
 public:
  // Asks for the first byte, which tells the size, and where redirects lead.
  explicit WebObject(const std::string& url) : WebObject(url, fetch_first(url)) {}

  int64_t size() const override { return size_; }
  std::string tag() const override { return tag_; }

  int64_t read(int64_t offset, std::span<std::byte> out) override {
    out = out.first(static_cast<size_t>(std::min(static_cast<int64_t>(out.size()), size_ - offset)));
    if (out.empty()) return 0;
    const Place direct = place();
    RangeReply part = fetch_part(direct.url, offset, out);
    // Addresses to which redirects lead are often good for some minutes only.
    const bool ran_out =
        part.reply.status >= 400 && part.reply.status < 500 && part.reply.status != kNoSuchRange && direct.url != url_;
    if (ran_out) part = fetch_part(url_, offset, out);
    const ContentRange range = parse_content_range(header(part.reply, "content-range"));
    const bool is_part = part.reply.status == 206;
    if ((is_part || part.reply.status == kNoSuchRange) && range.size && *range.size != size_) refuse_replaced();
    if (part.reply.status != 200 && !is_part) refuse(part.reply, url_);
    const std::string linked = ran_out ? header(part.reply, "x-linked-etag") : "";
    if (linked.empty() ? Version(part.reply).differs_from(direct.version) : linked != tag_) refuse_replaced();
    if (ran_out) move_to(part.reply);
    if (part.got != static_cast<int64_t>(out.size()) || (is_part && range.first && *range.first != offset))
      throw ServerError("the answer is shorter than what was asked for", "", true);
    return part.got;
  }

 private:
  static constexpr long kNoSuchRange = 416;

  static RangeReply fetch_first(const std::string& url) {
    std::byte first{};
    return fetch_part(url, 0, {&first, 1});
  }
  WebObject(const std::string& url, const RangeReply& part) : url_(url) {
    const ContentRange range = parse_content_range(header(part.reply, "content-range"));
    std::optional<int64_t> size = part.reply.status == 200 ? parse_length(header(part.reply, "content-length")) : range.size;
    if (part.reply.status != 200 && part.reply.status != 206 && !(part.reply.status == kNoSuchRange && size == 0))
      refuse(part.reply, url_);
    if (!size)
      throw ServerError("the server does not say how large it is", "download it, and give the path of the file", false);
    size_ = *size;
    tag_ = tag_of(part.reply);
    move_to(part.reply);
  }
  // Where redirects led, and what the server there says of the file.
  struct Place {
    std::string url;
    Version version;
  };
  Place place() {
    const std::lock_guard lock(mutex_);
    return place_;
  }
  void move_to(const http::WebReply& reply) {
    const std::lock_guard lock(mutex_);
    place_ = {reply.url.empty() ? url_ : reply.url, Version(reply)};
  }

  const std::string url_;
  int64_t size_ = 0;
  std::string tag_;
  std::mutex mutex_;
  Place place_;
};

// Files of a repository of the Hub below a folder, and folders. False where there is no such folder.
bool list_hub(const HubPath& place, bool deep, const ObjectServer::Visit& visit) {
  std::string url = fmt::format("{}/api/{}/{}/tree/{}/{}{}", hub_endpoint(), place.kind, place.name,
                                escaped_name(place.revision), escaped_url(place.path, true), deep ? "?recursive=true" : "");
  while (!url.empty()) {
    if (!url.starts_with(hub_endpoint() + "/")) throw ServerError("the listing goes on on another server", "", false);
    const http::WebReply reply = transfer(url, [&](http::WebClient& client) { return client.request(url, ""); });
    if (reply.status == 404) return false;
    if (reply.status != 200) refuse(reply, url);
    read_hub_tree(reply.body, place.path, visit);
    url = next_page(header(reply, "link"));
  }
  return true;
}

class WebServer final : public ObjectServer {
 public:
  std::unique_ptr<ServedObject> open(const std::string& url, const ObjectInfo*) override {
    return std::make_unique<WebObject>(address(url));
  }

  ObjectInfo info(const std::string& url) override {
    const HubPath place = is_hub(url) ? parse_hub_path(url) : HubPath{};
    if (!is_hub(url) || !place.path.empty()) {
      try {
        return {ObjectKind::kObject, WebObject(address(url)).size(), 0};
      } catch (const ServerError& error) {
        const std::string_view reason = error.what();
        if (!reason.ends_with("404") && !reason.ends_with("410")) throw;
      }
    }
    return is_hub(url) && list_hub(place, false, [](const std::string&, const ObjectInfo&) {}) ? ObjectInfo{ObjectKind::kFolder}
                                                                                               : ObjectInfo{};
  }

  void list(const std::string& url, bool deep, const Visit& visit) override {
    if (!is_hub(url))
      throw ServerError("web servers have no lists of their files", "name each file; {000..127} stands for numbers", false);
    expect_online();
    if (!list_hub(parse_hub_path(url), deep, visit)) throw ServerError("there is no such folder", "look at its name", false);
  }

  void write(const std::string&, const Next&) override { refuse_write(); }
  void remove(const std::string&) override { refuse_write(); }

 private:
  static std::string address(const std::string& url) {
    if (!is_hub(url)) return escaped_url(url, false);
    expect_online();
    return resolve_url(parse_hub_path(url));
  }
  static void expect_online() {
    if (hub_offline()) throw ServerError("HF_HUB_OFFLINE forbids it", "unset it, or give a local path", false);
  }
  [[noreturn]] static void refuse_write() {
    throw ServerError("web servers are only read", "name a local path or a bucket", false);
  }
};

}  // namespace

ObjectServer& web_server() {
  static WebServer server;
  return server;
}

}  // namespace tessera::store
