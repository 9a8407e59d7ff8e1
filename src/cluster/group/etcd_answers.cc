#include "cluster/group/etcd_answers.h"

#include <limits>
#include <utility>

#include "base/text/base64.h"
#include "base/text/digits.h"
#include "base/text/json.h"

namespace tessera::group {
namespace {

using nlohmann::json;

// What is there under `name`, or null.
const json& at(const json& value, const char* name) {
  static const json none;
  if (!value.is_object()) return none;
  const auto found = value.find(name);
  return found == value.end() ? none : *found;
}

const std::string* text_at(const json& value, const char* name) { return at(value, name).get_ptr<const json::string_t*>(); }

}  // namespace

std::optional<std::vector<KeyValue>> etcd_pairs(const json& answer) {
  std::vector<KeyValue> found;
  const json& pairs = at(answer, "kvs");
  if (!pairs.is_null() && !pairs.is_array()) return {};
  for (const json& pair : pairs) {
    const std::string *key = text_at(pair, "key"), *value = text_at(pair, "value"), *lease = text_at(pair, "lease");
    if (key == nullptr || (value == nullptr && !at(pair, "value").is_null())) return {};
    auto name = bytes_of_base64(*key), bytes = bytes_of_base64(value == nullptr ? "" : *value);
    if (!name || !bytes) return {};
    found.push_back({std::move(*name), std::move(*bytes), lease == nullptr ? "" : *lease});
  }
  return found;
}

std::optional<int64_t> etcd_revision(const json& answer) {
  const std::string* text = text_at(at(answer, "header"), "revision");
  const auto revision = text == nullptr ? std::nullopt : parse_digits(*text);
  return revision == std::numeric_limits<int64_t>::max() ? std::nullopt : revision;  // one comes after it
}

std::optional<std::string> etcd_lease(const json& answer) {
  const std::string* text = text_at(answer, "ID");
  return text == nullptr ? std::nullopt : std::optional(*text);
}

bool etcd_lease_lives(const json& answer) { return !at(at(answer, "result"), "TTL").is_null(); }

bool etcd_succeeded(const json& answer) { return at(answer, "succeeded") == true; }

WatchNews etcd_news(std::string_view line) {
  WatchNews news;
  const JsonResult read = read_json(line);
  const json& result = at(read.value, "result");
  news.over = at(result, "canceled") == true;
  if (const std::string* oldest = text_at(result, "compact_revision")) news.oldest = parse_digits(*oldest).value_or(0);
  const json& events = at(result, "events");
  if (!events.is_array()) return news;
  for (const json& event : events) {
    const std::string *type = text_at(event, "type"), *key = text_at(at(event, "kv"), "key");
    if (type == nullptr || *type != "DELETE" || key == nullptr) continue;
    if (auto name = bytes_of_base64(*key)) news.deleted.push_back(std::move(*name));
  }
  return news;
}

std::optional<int64_t> process_of_key(std::string_view key) { return parse_digits(key.substr(key.rfind('/') + 1)); }

}  // namespace tessera::group
