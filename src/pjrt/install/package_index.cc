#include "pjrt/install/package_index.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <map>

#include "base/error.h"
#include "base/printable.h"
#include "base/system/environment.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "store/fetch_file.h"
#include "store/file.h"

namespace tessera::plugins {
namespace {

constexpr const char* kPublic = "https://pypi.org/simple";
constexpr int64_t kMaxSettings = 1 << 20;
constexpr size_t kMaxPage = size_t{64} << 20;
// JSON says sizes, too; an index that has none of it sends HTML.
constexpr const char* kAccept =
    "application/vnd.pypi.simple.v1+json, application/vnd.pypi.simple.v1+html;q=0.2, text/html;q=0.1";

// An address in its parts: "https", "user:password", "host:8080", "/simple/libtpu/".
struct Url {
  std::string scheme, credentials, server, path;
  std::string text() const { return scheme + "://" + (credentials.empty() ? "" : credentials + "@") + server + path; }
};

std::optional<Url> parse_url(std::string_view text) {
  const size_t colon = text.find("://");
  if (colon == std::string_view::npos || colon == 0) return std::nullopt;
  Url out;
  out.scheme = text.substr(0, colon);
  if (!std::ranges::all_of(out.scheme, [](unsigned char c) { return std::isalnum(c) || c == '+' || c == '-' || c == '.'; }))
    return std::nullopt;
  std::string_view rest = text.substr(colon + 3);
  const size_t end = std::min(rest.find_first_of("/?#"), rest.size());
  out.path = rest.substr(end);
  rest = rest.substr(0, end);
  if (const size_t at = rest.rfind('@'); at != std::string_view::npos) {
    out.credentials = rest.substr(0, at);
    rest.remove_prefix(at + 1);
  }
  out.server = rest;
  return out;
}

// "/a/b/../c" -> "/a/c".
std::string without_dots(const std::string& path) {
  const size_t query = std::min(path.find('?'), path.size());
  std::vector<std::string> parts;
  const std::vector<std::string> all = split(std::string_view(path).substr(0, query), '/');
  for (size_t i = 1; i < all.size(); ++i) {
    const bool last = i + 1 == all.size();
    if (all[i] == ".." && !parts.empty()) parts.pop_back();
    if (all[i] != ".." && all[i] != ".")
      parts.push_back(all[i]);
    else if (last)
      parts.emplace_back();
  }
  return "/" + join(parts, "/") + path.substr(query);
}

std::string without_entities(std::string text) {
  for (const auto& [entity, letter] :
       {std::pair("&quot;", "\""), std::pair("&lt;", "<"), std::pair("&gt;", ">"), std::pair("&amp;", "&")}) {
    for (size_t at = 0; (at = text.find(entity, at)) != std::string::npos; ++at)
      text.replace(at, std::string_view(entity).size(), letter);
  }
  return text;
}

// The value of the href that holds byte `at` of the page; empty where none does.
std::string link_around(std::string_view page, size_t at) {
  const size_t open = page.rfind('<', at);
  if (open == std::string_view::npos) return {};
  const std::string_view tag = page.substr(open, page.find('>', at) - open);
  size_t href = tag.find("href");
  if (href == std::string_view::npos) return {};
  href = tag.find_first_of("\"'", href);
  if (href == std::string_view::npos || open + href > at) return {};
  const size_t end = tag.find(tag[href], href + 1);
  if (end == std::string_view::npos || open + end < at) return {};
  return without_entities(std::string(tag.substr(href + 1, end - href - 1)));
}

std::optional<IndexFile> find_in_html(std::string_view page, const std::string& page_url, const std::string& sha256) {
  const std::string wanted = "#sha256=" + sha256;
  for (size_t at = 0; (at = page.find(wanted, at)) != std::string_view::npos; at += wanted.size()) {
    const std::string link = link_around(page, at);
    if (!link.empty()) return IndexFile{resolve_link(page_url, link.substr(0, link.find('#')))};
  }
  return std::nullopt;
}

std::optional<IndexFile> find_in_json(std::string_view page, const std::string& page_url, const std::string& sha256,
                                      const std::string& where) {
  const nlohmann::json json = parse_json(page, where);
  try {
    for (const nlohmann::json& file : json.at("files")) {
      if (file.at("hashes").value("sha256", "") != sha256) continue;
      IndexFile out{resolve_link(page_url, file.at("url").get<std::string>())};
      if (const auto size = file.find("size"); size != file.end() && size->is_number_unsigned())
        out.size = json_integer(*size, 0, int64_t{1} << 50);
      return out;
    }
  } catch (const nlohmann::json::exception& error) {
    throw data_error(fmt::format("is no page of a package index: {}", error.what()), where);
  }
  return std::nullopt;
}

// Sections of pip.conf with their values, which may go on in indented lines.
using Settings = std::map<std::string, std::map<std::string, std::string>>;

void read_settings(const std::string& path, Settings& out) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return;  // PIP_CONFIG_FILE=/dev/null is none
  store::FileSystem& files = store::local_files();
  if (files.info(path)->size > kMaxSettings) return;
  std::string section, key;
  for (const std::string& line : split(store::read_text(files, path), '\n')) {
    const std::string_view text = trim(line);
    if (text.empty() || text.front() == '#' || text.front() == ';') continue;
    if (std::isspace(static_cast<unsigned char>(line.front())) && !key.empty()) {
      out[section][key] += " " + std::string(text);
    } else if (text.front() == '[' && text.back() == ']') {
      section = trim(text.substr(1, text.size() - 2));
      key.clear();
    } else if (const size_t at = text.find_first_of("=:"); at != std::string_view::npos) {
      key = trim(text.substr(0, at));
      std::ranges::replace(key, '_', '-');
      out[section][key] = trim(text.substr(at + 1));
    }
  }
}

// The last one wins.
std::vector<std::string> settings_files() {
  if (const std::string alone = environment_variable("PIP_CONFIG_FILE"); !alone.empty()) return {alone};
  std::vector<std::string> out = {"/etc/xdg/pip/pip.conf", "/etc/pip.conf"};
  const std::string home = environment_variable("HOME");
  if (!home.empty()) out.push_back(home + "/.pip/pip.conf");
  const std::string config = environment_variable("XDG_CONFIG_HOME", home.empty() ? "" : home + "/.config");
  if (!config.empty()) out.push_back(config + "/pip/pip.conf");
  if (const std::string venv = environment_variable("VIRTUAL_ENV"); !venv.empty()) out.push_back(venv + "/pip.conf");
  return out;
}

std::vector<std::string> words_of(std::string text) {
  std::ranges::replace_if(
      text, [](unsigned char c) { return std::isspace(c); }, ' ');
  std::vector<std::string> out;
  for (std::string& word : split(text, ' ')) {
    while (word.ends_with('/')) word.pop_back();
    if (!word.empty()) out.push_back(std::move(word));
  }
  return out;
}

// One page, whole. Empty where the index has no such project; `answer` is then its status.
std::string page_of(http::WebClient& client, const std::string& url, long& answer) {
  for (int tried = 1;; ++tried) {
    std::string page;
    const http::WebReply reply = client.download({
        .url = url,
        .begin = [&](int64_t) { page.clear(); },
        .take =
            [&](std::string_view bytes) {
              if (page.size() + bytes.size() > kMaxPage) return false;
              page += bytes;
              return true;
            },
        .accept = kAccept,
    });
    answer = reply.status;
    if (reply.status == 200) return page;
    if (reply.status < 500 || tried == store::kFetchTries) return "";
    store::wait_before_trying_again(tried);
  }
}

}  // namespace

std::string without_credentials(const std::string& url) {
  auto parts = parse_url(url);
  if (!parts) return url;
  parts->credentials.clear();
  return parts->text();
}

std::string resolve_link(const std::string& base, const std::string& link) {
  const auto page = parse_url(base);
  if (!page) return link;
  if (auto whole = parse_url(link)) {
    const bool same = whole->scheme == page->scheme && whole->server == page->server;
    if (same && whole->credentials.empty()) whole->credentials = page->credentials;
    return whole->text();
  }
  if (link.starts_with("//")) return resolve_link(base, page->scheme + ":" + link);
  Url out = *page;
  const std::string here = page->path.substr(0, page->path.find_first_of("?#"));
  out.path = without_dots(link.starts_with('/') ? link : here.substr(0, here.rfind('/') + 1) + link);
  if (here.empty() && !link.starts_with('/')) out.path = without_dots("/" + link);
  return out.text();
}

std::optional<IndexFile> find_in_page(std::string_view page, const std::string& page_url, const std::string& sha256,
                                      const std::string& where) {
  return trim(page).starts_with('{') ? find_in_json(page, page_url, sha256, where) : find_in_html(page, page_url, sha256);
}

IndexSettings index_settings() {
  Settings settings;
  for (const std::string& path : settings_files()) read_settings(path, settings);
  const auto setting = [&](const std::string& name, const char* variable) {
    std::string value = environment_variable(variable);
    for (const char* section : {"install", "global"}) {
      if (value.empty()) value = settings[section][name];
    }
    return value;
  };
  IndexSettings out;
  out.urls = words_of(setting("index-url", "PIP_INDEX_URL"));
  if (out.urls.empty()) out.urls.emplace_back(kPublic);
  for (std::string& url : words_of(setting("extra-index-url", "PIP_EXTRA_INDEX_URL"))) out.urls.push_back(std::move(url));
  out.authorities = setting("cert", "PIP_CERT");
  return out;
}

IndexFile find_wheel(http::WebClient& client, const IndexSettings& settings, const Wheel& wheel) {
  std::vector<std::string> answers;
  for (const std::string& index : settings.urls) {
    const std::string url = fmt::format("{}/{}/", index, wheel.name), shown = without_credentials(url);
    long status = 0;
    const std::string page = page_of(client, url, status);
    if (status == 200) {
      if (auto found = find_in_page(page, url, wheel.sha256, shown)) return *found;
      answers.push_back(fmt::format("{} lists no file with the hash of {} {}", shown, wheel.name, wheel.version));
    } else {
      answers.push_back(fmt::format("{} answers {}", shown, status));
    }
  }
  throw data_error(fmt::format("{} {} is not to be had: {}", wheel.name, wheel.version, one_line(join(answers, "; "))), {},
                   "PIP_INDEX_URL and pip.conf name the index, as for pip");
}

}  // namespace tessera::plugins
