// tessera_parquet.so: Parquet files through Arrow's C++ library, behind the C interface of data/formats/parquet_module.h.

#include "data/formats/parquet_module.h"

#include <arrow/array.h>
#include <arrow/chunked_array.h>
#include <arrow/io/file.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>

#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

namespace {

char* copy_text(const std::string& text) {
  auto* copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy) std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

void check(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.message());
}

template <class T>
T take(arrow::Result<T> result) {
  check(result.status());
  return std::move(result).ValueUnsafe();
}

struct File {
  std::string path;
  std::shared_ptr<parquet::FileMetaData> metadata;
  std::vector<std::string> columns;  // names of leaves
};

// A leaf: an array for each chunk, and its struct where it lies in one.
struct Column {
  std::vector<std::shared_ptr<arrow::Array>> chunks, parents;
};

struct Group {
  std::shared_ptr<arrow::Table> table;
  std::vector<Column> columns;
  int64_t bytes = 0;
};

std::unique_ptr<parquet::ParquetFileReader> open_reader(const std::string& path, std::shared_ptr<parquet::FileMetaData> known) {
  return parquet::ParquetFileReader::OpenFile(path, false, parquet::default_reader_properties(), std::move(known));
}

int leaf_index(const File& file, const std::string& name) {
  for (size_t i = 0; i < file.columns.size(); ++i) {
    if (file.columns[i] == name) return static_cast<int>(i);
  }
  return -1;
}

int kind_of(const parquet::ColumnDescriptor& column) {
  if (column.max_repetition_level() > 0) return TESSERA_PARQUET_OTHER;
  switch (column.physical_type()) {
    case parquet::Type::BYTE_ARRAY: return TESSERA_PARQUET_BYTES;
    case parquet::Type::INT32:
    case parquet::Type::INT64: {
      const auto& logical = column.logical_type();
      const bool plain = !logical || logical->is_none() || logical->is_int();
      return plain ? TESSERA_PARQUET_INTEGER : TESSERA_PARQUET_OTHER;
    }
    default: return TESSERA_PARQUET_OTHER;
  }
}

Column find_column(const arrow::Table& table, const std::string& name) {
  const size_t dot = name.find('.');
  auto whole = table.GetColumnByName(name);
  const bool nested = !whole && dot != std::string::npos;
  if (nested) whole = table.GetColumnByName(name.substr(0, dot));
  if (!whole) throw std::runtime_error("no column " + name);
  Column column;
  for (const auto& chunk : whole->chunks()) {
    if (!nested) {
      column.chunks.push_back(chunk);
      continue;
    }
    const auto* parent = dynamic_cast<const arrow::StructArray*>(chunk.get());
    auto leaf = parent ? parent->GetFieldByName(name.substr(dot + 1)) : nullptr;
    if (!leaf) throw std::runtime_error("no column " + name);
    column.parents.push_back(chunk);
    column.chunks.push_back(std::move(leaf));
  }
  return column;
}

template <class Array>
void set_bytes(const arrow::Array& array, int64_t row, TesseraParquetValue* value) {
  const auto view = static_cast<const Array&>(array).GetView(row);
  value->data = view.data();
  value->size = static_cast<int64_t>(view.size());
}

template <class Array>
void set_integer(const arrow::Array& array, int64_t row, TesseraParquetValue* value) {
  value->integer = static_cast<int64_t>(static_cast<const Array&>(array).Value(row));
}

void set_value(const arrow::Array& array, int64_t row, TesseraParquetValue* value) {
  switch (array.type_id()) {
    case arrow::Type::BINARY:
    case arrow::Type::STRING: return set_bytes<arrow::BinaryArray>(array, row, value);
    case arrow::Type::LARGE_BINARY:
    case arrow::Type::LARGE_STRING: return set_bytes<arrow::LargeBinaryArray>(array, row, value);
    case arrow::Type::INT8: return set_integer<arrow::Int8Array>(array, row, value);
    case arrow::Type::INT16: return set_integer<arrow::Int16Array>(array, row, value);
    case arrow::Type::INT32: return set_integer<arrow::Int32Array>(array, row, value);
    case arrow::Type::INT64: return set_integer<arrow::Int64Array>(array, row, value);
    case arrow::Type::UINT8: return set_integer<arrow::UInt8Array>(array, row, value);
    case arrow::Type::UINT16: return set_integer<arrow::UInt16Array>(array, row, value);
    case arrow::Type::UINT32: return set_integer<arrow::UInt32Array>(array, row, value);
    case arrow::Type::UINT64: return set_integer<arrow::UInt64Array>(array, row, value);
    default: value->is_null = 1;
  }
}

void* open_file(const char* path, char** error) try {
  auto file = std::make_unique<File>();
  file->path = path;
  file->metadata = open_reader(path, nullptr)->metadata();
  const parquet::SchemaDescriptor* schema = file->metadata->schema();
  for (int i = 0; i < schema->num_columns(); ++i) file->columns.push_back(schema->Column(i)->path()->ToDotString());
  return file.release();
} catch (const std::exception& e) {
  *error = copy_text(e.what());
  return nullptr;
}

void close_file(void* file) { delete static_cast<File*>(file); }
int64_t row_groups(const void* file) { return static_cast<const File*>(file)->metadata->num_row_groups(); }
int64_t rows(const void* file, int64_t group) {
  return static_cast<const File*>(file)->metadata->RowGroup(static_cast<int>(group))->num_rows();
}

const char* metadata(const void* file, const char* key) {
  const auto& pairs = static_cast<const File*>(file)->metadata->key_value_metadata();
  const int index = pairs ? pairs->FindKey(key) : -1;
  return index < 0 ? nullptr : pairs->value(index).c_str();
}

const char* column(const void* file, int64_t index) {
  const auto& columns = static_cast<const File*>(file)->columns;
  return index < static_cast<int64_t>(columns.size()) ? columns[static_cast<size_t>(index)].c_str() : nullptr;
}

int kind(const void* handle, const char* name) {
  const auto& file = *static_cast<const File*>(handle);
  const int index = leaf_index(file, name);
  return index < 0 ? TESSERA_PARQUET_NONE : kind_of(*file.metadata->schema()->Column(index));
}

void* read_group(const void* handle, int64_t number, const char* const* names, int64_t count, char** error) try {
  const auto& file = *static_cast<const File*>(handle);
  std::vector<int> leaves;
  for (int64_t i = 0; i < count; ++i) leaves.push_back(leaf_index(file, names[i]));
  // A reader of its own: readers are not thread-safe.
  std::unique_ptr<parquet::arrow::FileReader> reader;
  parquet::arrow::FileReaderBuilder builder;
  check(builder.Open(take(arrow::io::ReadableFile::Open(file.path)), parquet::default_reader_properties(), file.metadata));
  check(builder.Build(&reader));
  reader->set_use_threads(false);
  auto group = std::make_unique<Group>();
  group->table = take(reader->ReadRowGroup(static_cast<int>(number), leaves));
  check(group->table->ValidateFull());
  for (int64_t i = 0; i < count; ++i) group->columns.push_back(find_column(*group->table, names[i]));
  group->bytes = file.metadata->RowGroup(static_cast<int>(number))->total_byte_size();
  return group.release();
} catch (const std::exception& e) {
  *error = copy_text(e.what());
  return nullptr;
}

void value(const void* handle, int64_t index, int64_t row, TesseraParquetValue* out) {
  *out = {1, nullptr, 0, 0};
  const Column& found = static_cast<const Group*>(handle)->columns[static_cast<size_t>(index)];
  for (size_t i = 0; i < found.chunks.size(); ++i) {
    const arrow::Array& chunk = *found.chunks[i];
    if (row >= chunk.length()) {
      row -= chunk.length();
      continue;
    }
    if (chunk.IsNull(row) || (!found.parents.empty() && found.parents[i]->IsNull(row))) return;
    out->is_null = 0;
    return set_value(chunk, row, out);
  }
}

int64_t group_bytes(const void* group) { return static_cast<const Group*>(group)->bytes; }
void free_group(void* group) { delete static_cast<Group*>(group); }
void free_text(char* text) { std::free(text); }

}  // namespace

extern "C" __attribute__((visibility("default"))) const TesseraParquetApi* tessera_parquet_api() {
  static const TesseraParquetApi api = {kTesseraParquetVersion,
                                        open_file,
                                        close_file,
                                        row_groups,
                                        rows,
                                        metadata,
                                        column,
                                        kind,
                                        read_group,
                                        value,
                                        group_bytes,
                                        free_group,
                                        free_text};
  return &api;
}
