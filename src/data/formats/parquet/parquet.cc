#include "data/formats/parquet/parquet.h"

#include <exception>
#include <mutex>
#include <new>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/system/shared_library.h"
#include "base/text/json.h"
#include "data/formats/parquet/parquet_footer.h"
#include "store/servers/buckets.h"

namespace tessera::data {
namespace {

using Json = nlohmann::json;

const Module kModule{
    .file = "tessera_parquet.so",
    .environment = "TESSERA_PARQUET",
    .function = "tessera_parquet_api",
    .needed_by = "Parquet files need",
    .help_missing = "./dev parquet-deps fetches Arrow's library and builds it; TESSERA_PARQUET=FILE names it elsewhere",
    .help_unloadable = "./dev parquet-deps fetches Arrow's library and builds it; TESSERA_PARQUET=FILE names it elsewhere"};

[[noreturn]] void fail_parquet(const std::string& path, const std::string& what, char* reason,
                               const std::string& help = "the file is damaged, was not copied whole or is of another format") {
  if (!reason) throw std::bad_alloc();
  const std::string text = reason;
  parquet_api().free_text(reason);
  throw data_error(fmt::format("`{}`: {}: {}", path, what, text.substr(0, text.find('\n'))), {}, help);
}

}  // namespace

const TesseraParquetApi& parquet_api() {
  static const TesseraParquetApi& api = module_api<TesseraParquetApi>(kModule, kTesseraParquetVersion);
  return api;
}

TesseraParquetValue ParquetGroup::value(size_t column, int64_t row, int64_t item) const {
  TesseraParquetValue value{};
  parquet_api().value(group_, static_cast<int64_t>(column), row, item, &value);
  return value;
}

// What the module reads, on threads of its own too. What a read throws is kept, since it may not pass through the module.
struct ParquetFile::Bytes {
  explicit Bytes(const std::string& path) : file(store::files_at(path).open(path)), input{this, file->size(), &Bytes::read} {}

  static int read(void* context, int64_t offset, int64_t length, void* out) {
    auto& bytes = *static_cast<Bytes*>(context);
    try {
      bytes.file->read(offset, {static_cast<std::byte*>(out), static_cast<size_t>(length)});
      return 1;
    } catch (...) {
      const std::lock_guard lock(bytes.mutex);
      bytes.failure = std::current_exception();
      return 0;
    }
  }
  std::exception_ptr take_failure() {
    const std::lock_guard lock(mutex);
    return std::exchange(failure, nullptr);
  }

  std::unique_ptr<store::ReadableFile> file;
  TesseraParquetInput input;
  std::mutex mutex;
  std::exception_ptr failure;
};

ParquetFile::~ParquetFile() { parquet_api().close(file_); }

void ParquetFile::fail_reading(const std::string& what, char* reason) const {
  if (const auto failure = bytes_->take_failure()) {
    if (reason) parquet_api().free_text(reason);
    std::rethrow_exception(failure);
  }
  fail_parquet(path_, what, reason);
}

ParquetFile::ParquetFile(const std::string& path) : path_(path) {
  constexpr int64_t kMaxRows = int64_t{1} << 50;
  const TesseraParquetApi& api = parquet_api();
  bytes_ = std::make_unique<Bytes>(path);
  check_parquet_footer(path, *bytes_->file);
  char* reason = nullptr;
  file_ = api.open(&bytes_->input, &reason);
  if (!file_) fail_reading("cannot be read as Parquet", reason);
  for (int64_t group = 0; group < api.row_groups(file_); ++group) {
    const int64_t rows = api.rows(file_, group);
    if (rows < 0 || rows > kMaxRows - first_.back()) {
      api.close(file_);
      throw data_error(fmt::format("`{}`: row group {} has {} rows", path, group, rows), {},
                       "the file is damaged: copy it again");
    }
    first_.push_back(first_.back() + rows);
  }
}

std::vector<std::string> ParquetFile::columns() const {
  std::vector<std::string> names;
  while (const char* name = parquet_api().column(file_, static_cast<int64_t>(names.size()))) names.emplace_back(name);
  return names;
}

TesseraParquetKind ParquetFile::kind(const std::string& column) const {
  return static_cast<TesseraParquetKind>(parquet_api().kind(file_, column.c_str()));
}

std::optional<std::string> ParquetFile::metadata(const std::string& key) const {
  const char* value = parquet_api().metadata(file_, key.c_str());
  return value ? std::optional<std::string>(value) : std::nullopt;
}

std::unique_ptr<ParquetGroup> ParquetFile::read_group(size_t group, const std::vector<std::string>& columns) const {
  std::vector<const char*> names;
  for (const std::string& column : columns) names.push_back(column.c_str());
  char* reason = nullptr;
  void* found =
      parquet_api().read_group(file_, static_cast<int64_t>(group), names.data(), static_cast<int64_t>(names.size()), &reason);
  if (!found) fail_reading(fmt::format("row group {} cannot be read", group), reason);
  return std::make_unique<ParquetGroup>(found);
}

void ParquetFile::prefetch(size_t group, int64_t row) const {
  int64_t offset = 0, length = 0;
  parquet_api().extent(file_, static_cast<int64_t>(group), &offset, &length);
  const int64_t rows = first_[group + 1] - first_[group], share = (length + rows - 1) / rows;
  bytes_->file->prefetch(offset + row * share, share);
}

void write_parquet(const std::string& path, const std::vector<ParquetColumn>& columns, int64_t rows) {
  std::vector<TesseraParquetColumn> borrowed;
  for (const ParquetColumn& column : columns) {
    const int64_t* counts = column.counts.empty() ? nullptr : column.counts.data();
    const int64_t items = counts ? std::accumulate(counts, counts + rows, int64_t{0}) : rows * column.width;
    TESSERA_CHECK(column.numbers || std::ssize(column.texts) == items);
    const TesseraParquetText* texts = column.numbers ? nullptr : column.texts.data();
    borrowed.push_back({column.name.c_str(), column.width, texts, column.numbers, column.stride, counts});
  }
  char* reason = nullptr;
  if (!parquet_api().write(path.c_str(), borrowed.data(), static_cast<int64_t>(borrowed.size()), rows, &reason))
    fail_parquet(path, "cannot be written", reason, "");
}

std::vector<std::string> huggingface_classes(std::string_view metadata, const std::string& column) {
  const Json json = read_json(metadata).value;
  const auto below = [](const Json* at, const std::string& key) -> const Json* {
    if (!at || !at->is_object()) return nullptr;
    const auto found = at->find(key);
    return found == at->end() ? nullptr : &*found;
  };
  const Json* feature = below(below(below(&json, "info"), "features"), column);
  // {"feature": {…}, "_type": "Sequence" or "List"}, or [{…}].
  if (const Json* inner = below(feature, "feature")) feature = inner;
  if (feature && feature->is_array() && feature->size() == 1) feature = &feature->front();
  const Json* at = below(feature, "names");
  std::vector<std::string> names;
  if (!at || !at->is_array()) return names;
  for (const Json& name : *at) names.push_back(name.is_string() ? name.get<std::string>() : name.dump());
  return names;
}

}  // namespace tessera::data
