#pragma once
// Parquet files, through tessera_parquet.so.

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/formats/parquet/parquet_module.h"

namespace tessera::data {

// Loads tessera_parquet.so on the first call: $TESSERA_PARQUET (a path), or beside the program, or in the bin beside its
// folder. Throws a data Error that says how to get it.
const TesseraParquetApi& parquet_api();

// Columns of one row group, in memory.
class ParquetGroup {
 public:
  explicit ParquetGroup(void* group) : group_(group) {}
  ~ParquetGroup() { parquet_api().free_group(group_); }
  ParquetGroup(const ParquetGroup&) = delete;
  ParquetGroup& operator=(const ParquetGroup&) = delete;
  // As the module's interface has them.
  int64_t count(size_t column, int64_t row) const { return parquet_api().count(group_, static_cast<int64_t>(column), row); }
  TesseraParquetValue value(size_t column, int64_t row, int64_t item = 0) const;
  int64_t bytes() const { return parquet_api().group_bytes(group_); }

 private:
  void* group_;
};

// A file of this machine or of a server (store/servers/buckets.h).
class ParquetFile {
 public:
  // Throws a data Error that names `path` when it is no Parquet file.
  explicit ParquetFile(const std::string& path);
  ~ParquetFile();
  ParquetFile(const ParquetFile&) = delete;
  ParquetFile& operator=(const ParquetFile&) = delete;

  const std::vector<int64_t>& first() const { return first_; }  // row of each group, and the number of all
  std::vector<std::string> columns() const;                     // leaves: "image.bytes", "label", a list "captions"
  TesseraParquetKind kind(const std::string& column) const;
  std::optional<std::string> metadata(const std::string& key) const;
  // Throws where the group cannot be read.
  std::unique_ptr<ParquetGroup> read_group(size_t group, const std::vector<std::string>& columns) const;
  // Says that a row of a group will be read soon. Fetches its share of the group's bytes, since those who read ahead ask for row
  // after row.
  void prefetch(size_t group, int64_t row) const;

 private:
  struct Bytes;
  [[noreturn]] void fail_reading(const std::string& what, char* reason) const;
  std::string path_;
  std::unique_ptr<Bytes> bytes_;
  void* file_ = nullptr;
  std::vector<int64_t> first_ = {0};
};

// A column to write: of each row one value or, where `width` is not 1, a list of so many.
struct ParquetColumn {
  std::string name;
  int64_t width = 1;
  std::vector<TesseraParquetText> texts = {};  // borrowed, the rows' one after the other; empty: a column of numbers
  const float* numbers = nullptr;              // of the first row
  int64_t stride = 0;                          // from one row's to the next row's
  std::vector<int64_t> counts = {};            // of lists of texts of various lengths: those of the rows
};
// A new file. Throws a data Error that names `path`.
void write_parquet(const std::string& path, const std::vector<ParquetColumn>& columns, int64_t rows);

// Names of the classes of a column, a ClassLabel or a list of them, from the metadata that the library datasets writes
// ("huggingface"); empty where it has none.
std::vector<std::string> huggingface_classes(std::string_view metadata, const std::string& column);

}  // namespace tessera::data
