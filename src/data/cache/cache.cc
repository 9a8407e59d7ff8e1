#include "data/cache/cache.h"

#include "base/error.h"
#include "base/text/call.h"
#include "config/byte_size.h"

namespace tessera::data {

CacheOptions parse_cache(std::string_view text, std::string_view where) {
  const Call call = parse_call(text, where);
  CallReader reader(call, where);
  CacheOptions options;
  if (call.name == "ram" || call.name == "disk") {
    options.kind = call.name == "ram" ? CacheOptions::Kind::kRam : CacheOptions::Kind::kDisk;
    if (call.name == "disk") options.path = reader.text("path");
    const std::string limit = reader.text("limit", "");
    if (limit.empty()) reader.fail("`limit` is missing", "for example ram(8 GiB), or disk(DIRECTORY, 100 GiB)");
    options.limit = config::parse_byte_size(limit, where);
    if (call.name == "disk") options.decoded = reader.boolean("decoded", false);
  } else if (call.name != "none") {
    throw usage_error(fmt::format("unknown cache `{}`", call.name), std::string(where),
                      "none, ram(8 GiB) for decoded pictures, disk(path, 100 GiB) for the files' bytes, or disk(path, 100 GiB, "
                      "decoded=true) for pictures that several processes share");
  }
  reader.finish();
  return options;
}

bool ByteBudget::take(int64_t bytes) {
  int64_t used = used_;
  do {
    if (bytes > limit_ - used) return false;
  } while (!used_.compare_exchange_weak(used, used + bytes));
  return true;
}

std::shared_ptr<const Source> cached(std::shared_ptr<const Source> source, const CacheOptions& options,
                                     const std::shared_ptr<ByteBudget>& budget, const image::DecodeLimits& limits) {
  switch (options.kind) {
    case CacheOptions::Kind::kRam: return cache_in_ram(std::move(source), budget, limits);
    case CacheOptions::Kind::kDisk:
      return cache_on_disk(std::move(source), options.path, budget, options.decoded ? std::optional(limits) : std::nullopt,
                           options.shared);
    case CacheOptions::Kind::kNone: break;
  }
  return source;
}

}  // namespace tessera::data
