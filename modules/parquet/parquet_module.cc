// tessera_parquet.so: Parquet files, read and written through Arrow's C++ library, behind the C interface of
// data/formats/parquet/parquet_module.h.

#include "data/formats/parquet/parquet_module.h"

#include <arrow/array.h>
#include <arrow/array/array_dict.h>
#include <arrow/buffer.h>
#include <arrow/builder.h>
#include <arrow/chunked_array.h>
#include <arrow/io/file.h>
#include <arrow/io/interfaces.h>
#include <arrow/memory_pool.h>
#include <arrow/table.h>
#include <arrow/type.h>
#include <arrow/type_traits.h>
#include <arrow/util/key_value_metadata.h>
#include <parquet/arrow/reader.h>
#include <parquet/arrow/schema.h>
#include <parquet/arrow/writer.h>
#include <parquet/file_reader.h>
#include <parquet/metadata.h>
#include <parquet/schema.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <cstring>
#include <limits>
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

// A leaf of a file's schema.
struct Leaf {
  std::string name;               // "image.bytes"
  std::vector<std::string> path;  // the parts of the name
  int index = -1;                 // in the file
  int lists = 0;                  // that it lies in
  std::shared_ptr<arrow::DataType> type;
};

// Who reads it has a place in it of his own.
class Input final : public arrow::io::RandomAccessFile {
 public:
  explicit Input(const TesseraParquetInput& input) : input_(input) {}

  arrow::Status Close() override {
    closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return closed_; }
  arrow::Result<int64_t> Tell() const override { return position_; }
  arrow::Status Seek(int64_t position) override {
    position_ = position;
    return arrow::Status::OK();
  }
  arrow::Result<int64_t> GetSize() override { return input_.size; }
  arrow::Result<int64_t> ReadAt(int64_t position, int64_t count, void* out) override {
    if (position < 0 || count < 0) return arrow::Status::IOError("a place that no file has");
    count = std::clamp<int64_t>(input_.size - position, 0, count);
    if (count > 0 && !input_.read(input_.context, position, count, out)) return arrow::Status::IOError("cannot be read");
    return count;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(int64_t position, int64_t count) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, arrow::AllocateResizableBuffer(count));
    ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position, count, buffer->mutable_data()));
    ARROW_RETURN_NOT_OK(buffer->Resize(got));
    return std::shared_ptr<arrow::Buffer>(std::move(buffer));
  }
  arrow::Result<int64_t> Read(int64_t count, void* out) override {
    ARROW_ASSIGN_OR_RAISE(const int64_t got, ReadAt(position_, count, out));
    position_ += got;
    return got;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(int64_t count) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(position_, count));
    position_ += buffer->size();
    return buffer;
  }

 private:
  const TesseraParquetInput& input_;
  int64_t position_ = 0;
  bool closed_ = false;
};

struct File {
  const TesseraParquetInput* input = nullptr;
  std::shared_ptr<parquet::FileMetaData> metadata;
  std::vector<Leaf> leaves;
};

// One chunk of a leaf: the arrays from the column down to the leaf, through structs and lists.
using Steps = std::vector<std::shared_ptr<arrow::Array>>;

// The system's memory; counts what is taken through it alone, and whether it was refused any.
class CountedPool : public arrow::ProxyMemoryPool {
 public:
  CountedPool() : arrow::ProxyMemoryPool(arrow::default_memory_pool()) {}
  using arrow::ProxyMemoryPool::Allocate;
  using arrow::ProxyMemoryPool::Reallocate;
  arrow::Status Allocate(int64_t size, int64_t alignment, uint8_t** out) override {
    return note(arrow::ProxyMemoryPool::Allocate(size, alignment, out));
  }
  arrow::Status Reallocate(int64_t old_size, int64_t new_size, int64_t alignment, uint8_t** pointer) override {
    return note(arrow::ProxyMemoryPool::Reallocate(old_size, new_size, alignment, pointer));
  }
  bool refused() const { return refused_; }

 private:
  arrow::Status note(arrow::Status status) {
    if (!status.ok()) refused_ = true;
    return status;
  }
  std::atomic<bool> refused_ = false;
};

// The memory of one row group, which pages claim before they are unpacked.
class Budget {
 public:
  explicit Budget(int64_t most) : capped_(&own_, most) {}
  arrow::MemoryPool* pool() { return &capped_; }
  // Whether the system had too little, and not the budget.
  bool refused() const { return own_.refused(); }

 private:
  CountedPool own_;
  arrow::CappedMemoryPool capped_;
};

struct Group {
  explicit Group(int64_t most) : budget(most) {}
  Budget budget;  // before the table, which gives its memory back to it
  std::shared_ptr<arrow::Table> table;
  std::vector<std::vector<Steps>> columns;  // chunks of each
  int64_t bytes = 0;
};

const Leaf* find_leaf(const File& file, const std::string& name) {
  for (const Leaf& leaf : file.leaves) {
    if (leaf.name == name) return &leaf;
  }
  return nullptr;
}

bool is_list(const arrow::DataType& type) {
  return type.id() == arrow::Type::LIST || type.id() == arrow::Type::LARGE_LIST || type.id() == arrow::Type::FIXED_SIZE_LIST;
}

void add_leaves(const parquet::arrow::SchemaField& field, Leaf leaf, std::vector<Leaf>& out) {
  const arrow::DataType& type = *field.field->type();
  // A map is a list of pairs, which is no list of values.
  leaf.lists += is_list(type) ? 1 : type.id() == arrow::Type::MAP ? 2 : 0;
  leaf.index = field.column_index;
  leaf.type = field.field->type();
  if (field.children.empty()) return out.push_back(std::move(leaf));
  for (const parquet::arrow::SchemaField& child : field.children) {
    Leaf below = leaf;
    if (!is_list(type) && type.id() != arrow::Type::MAP)
      below.name += "." + child.field->name(), below.path.push_back(child.field->name());
    add_leaves(child, std::move(below), out);
  }
}

std::vector<Leaf> leaves_of(const parquet::FileMetaData& metadata) {
  parquet::arrow::SchemaManifest manifest;
  check(parquet::arrow::SchemaManifest::Make(metadata.schema(), metadata.key_value_metadata(),
                                             parquet::default_arrow_reader_properties(), &manifest));
  std::vector<Leaf> leaves;
  for (const parquet::arrow::SchemaField& field : manifest.schema_fields) {
    add_leaves(field, {field.field->name(), {field.field->name()}, -1, 0, nullptr}, leaves);
  }
  return leaves;
}

// Of the values: pandas' categories are indices into them.
arrow::Type::type value_type(const arrow::DataType& type) {
  return type.id() == arrow::Type::DICTIONARY ? static_cast<const arrow::DictionaryType&>(type).value_type()->id() : type.id();
}

int kind_of(const Leaf& leaf) {
  if (leaf.lists > 1) return TESSERA_PARQUET_OTHER;
  const arrow::Type::type type = value_type(*leaf.type);
  if (arrow::is_base_binary_like(type)) return leaf.lists ? TESSERA_PARQUET_BYTES_LIST : TESSERA_PARQUET_BYTES;
  if (!arrow::is_integer(type)) return TESSERA_PARQUET_OTHER;
  return leaf.lists ? TESSERA_PARQUET_INTEGER_LIST : TESSERA_PARQUET_INTEGER;
}

std::shared_ptr<arrow::Array> values_of(const arrow::Array& list) {
  switch (list.type_id()) {
    case arrow::Type::LIST: return static_cast<const arrow::ListArray&>(list).values();
    case arrow::Type::LARGE_LIST: return static_cast<const arrow::LargeListArray&>(list).values();
    case arrow::Type::FIXED_SIZE_LIST: return static_cast<const arrow::FixedSizeListArray&>(list).values();
    default: return nullptr;
  }
}

// Where the values of a row begin in values_of(list), and how many they are.
struct Range {
  int64_t begin, count;
};
template <class List>
Range range_in(const arrow::Array& array, int64_t row) {
  const auto& list = static_cast<const List&>(array);
  return {static_cast<int64_t>(list.value_offset(row)), static_cast<int64_t>(list.value_length(row))};
}
Range range_of(const arrow::Array& list, int64_t row) {
  switch (list.type_id()) {
    case arrow::Type::LIST: return range_in<arrow::ListArray>(list, row);
    case arrow::Type::LARGE_LIST: return range_in<arrow::LargeListArray>(list, row);
    default: return range_in<arrow::FixedSizeListArray>(list, row);
  }
}

Steps steps_to(const Leaf& leaf, std::shared_ptr<arrow::Array> column) {
  Steps steps = {std::move(column)};
  for (size_t next = 1;;) {
    const arrow::Array& last = *steps.back();
    auto below = values_of(last);
    if (const auto* parent = dynamic_cast<const arrow::StructArray*>(&last); parent && next < leaf.path.size()) {
      below = parent->GetFieldByName(leaf.path[next++]);
      if (!below) throw std::runtime_error("no column " + leaf.name);
    }
    if (!below) return steps;
    steps.push_back(std::move(below));
  }
}

std::vector<Steps> find_column(const arrow::Table& table, const Leaf& leaf) {
  const auto whole = table.GetColumnByName(leaf.path[0]);
  if (!whole) throw std::runtime_error("no column " + leaf.name);
  std::vector<Steps> chunks;
  for (const auto& chunk : whole->chunks()) chunks.push_back(steps_to(leaf, chunk));
  return chunks;
}

template <class Array>
void set_bytes(const arrow::Array& array, int64_t row, TesseraParquetValue* value) {
  const auto view = static_cast<const Array&>(array).GetView(row);
  value->data = view.data();
  value->size = static_cast<int64_t>(view.size());
}

template <class Array>
void set_integer(const arrow::Array& array, int64_t row, TesseraParquetValue* value) {
  // Of int8 as well, whose values have a sign.
  // NOLINTNEXTLINE(bugprone-signed-char-misuse)
  value->integer = static_cast<int64_t>(static_cast<const Array&>(array).Value(row));
}

void set_value(const arrow::Array& array, int64_t row, TesseraParquetValue* value) {
  if (array.IsNull(row)) {
    value->is_null = 1;
    return;
  }
  switch (array.type_id()) {
    case arrow::Type::DICTIONARY: {
      const auto& indices = static_cast<const arrow::DictionaryArray&>(array);
      return set_value(*indices.dictionary(), indices.GetValueIndex(row), value);
    }
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

void* open_file(const TesseraParquetInput* input, char** error) try {
  auto file = std::make_unique<File>();
  file->input = input;
  file->metadata = parquet::ParquetFileReader::Open(std::make_shared<Input>(*input))->metadata();
  file->leaves = leaves_of(*file->metadata);
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

void extent(const void* file, int64_t group, int64_t* offset, int64_t* length) {
  const auto columns = static_cast<const File*>(file)->metadata->RowGroup(static_cast<int>(group));
  int64_t begin = std::numeric_limits<int64_t>::max(), end = 0;
  for (int i = 0; i < columns->num_columns(); ++i) {
    const auto column = columns->ColumnChunk(i);
    const int64_t dictionary = column->has_dictionary_page() ? column->dictionary_page_offset() : 0;
    const int64_t first = dictionary > 0 ? dictionary : column->data_page_offset();
    begin = std::min(begin, first);
    end = std::max(end, first + std::max<int64_t>(column->total_compressed_size(), 0));
  }
  *offset = begin < end ? begin : 0;
  *length = begin < end ? end - begin : 0;
}

const char* metadata(const void* file, const char* key) {
  const auto& pairs = static_cast<const File*>(file)->metadata->key_value_metadata();
  const int index = pairs ? pairs->FindKey(key) : -1;
  return index < 0 ? nullptr : pairs->value(index).c_str();
}

const char* column(const void* file, int64_t index) {
  const auto& leaves = static_cast<const File*>(file)->leaves;
  return index < static_cast<int64_t>(leaves.size()) ? leaves[static_cast<size_t>(index)].name.c_str() : nullptr;
}

int kind(const void* handle, const char* name) {
  const Leaf* leaf = find_leaf(*static_cast<const File*>(handle), name);
  return leaf ? kind_of(*leaf) : TESSERA_PARQUET_NONE;
}

// What columns of a row group may take in memory. Images and texts take what they take in the file, numbers and dictionaries
// some times that.
int64_t most_bytes(const parquet::RowGroupMetaData& group, const std::vector<int>& columns) {
  constexpr int64_t kFree = int64_t{1} << 30, kRatio = 64, kMax = int64_t{1} << 36;
  int64_t packed = 0;
  for (const int column : columns) packed += std::clamp<int64_t>(group.ColumnChunk(column)->total_compressed_size(), 0, kMax);
  return std::min(kFree + kRatio * std::min(packed, kMax / kRatio), kMax);
}

void fill_group(Group& group, const File& file, int number, const std::vector<const Leaf*>& leaves,
                const std::vector<int>& indices) {
  const parquet::ReaderProperties properties(group.budget.pool());
  // A reader of its own: readers are not thread-safe.
  std::unique_ptr<parquet::arrow::FileReader> reader;
  parquet::arrow::FileReaderBuilder builder;
  check(builder.Open(std::make_shared<Input>(*file.input), properties, file.metadata));
  check(builder.memory_pool(group.budget.pool())->Build(&reader));
  reader->set_use_threads(false);
  group.table = take(reader->ReadRowGroup(number, indices));
  check(group.table->ValidateFull());
  for (const Leaf* leaf : leaves) group.columns.push_back(find_column(*group.table, *leaf));
  group.bytes = file.metadata->RowGroup(number)->total_byte_size();
}

void* read_group(const void* handle, int64_t number, const char* const* names, int64_t count, char** error) try {
  const auto& file = *static_cast<const File*>(handle);
  std::vector<const Leaf*> leaves;
  std::vector<int> indices;
  for (int64_t i = 0; i < count; ++i) {
    leaves.push_back(find_leaf(file, names[i]));
    if (!leaves.back()) throw std::runtime_error(std::string("no column ") + names[i]);
    indices.push_back(leaves.back()->index);
  }
  auto group = std::make_unique<Group>(most_bytes(*file.metadata->RowGroup(static_cast<int>(number)), indices));
  try {
    fill_group(*group, file, static_cast<int>(number), leaves, indices);
  } catch (const std::exception&) {
    if (group->budget.refused()) return nullptr;
    throw;
  }
  return group.release();
} catch (const std::exception& e) {
  *error = copy_text(e.what());
  return nullptr;
}

// The chunk that holds a row, and the row's place in it; null where there is none.
const Steps* find_chunk(const void* group, int64_t column, int64_t& row) {
  for (const Steps& steps : static_cast<const Group*>(group)->columns[static_cast<size_t>(column)]) {
    if (row < steps[0]->length()) return &steps;
    row -= steps[0]->length();
  }
  return nullptr;
}

int64_t count(const void* group, int64_t column, int64_t row) {
  const Steps* steps = find_chunk(group, column, row);
  if (!steps) return -1;
  for (const auto& step : *steps) {
    if (step->IsNull(row)) return -1;
    if (is_list(*step->type())) return range_of(*step, row).count;
  }
  return 1;
}

void value(const void* group, int64_t column, int64_t row, int64_t item, TesseraParquetValue* out) {
  *out = {1, nullptr, 0, 0};
  const Steps* steps = find_chunk(group, column, row);
  if (!steps) return;
  for (const auto& step : *steps) {
    if (step->IsNull(row)) return;
    if (is_list(*step->type())) row = range_of(*step, row).begin + item;
  }
  out->is_null = 0;
  set_value(*steps->back(), row, out);
}

// The values of a column to write, or lists of them.
std::shared_ptr<arrow::Array> build_column(const TesseraParquetColumn& column, int64_t rows) {
  arrow::MemoryPool* pool = arrow::default_memory_pool();
  const auto texts = std::make_shared<arrow::StringBuilder>(pool);
  const auto numbers = std::make_shared<arrow::FloatBuilder>(pool);
  const std::shared_ptr<arrow::ArrayBuilder> values = column.numbers ? std::static_pointer_cast<arrow::ArrayBuilder>(numbers)
                                                                     : std::static_pointer_cast<arrow::ArrayBuilder>(texts);
  arrow::ListBuilder lists(pool, values);
  const bool listed = column.width != 1 || column.counts;
  int64_t next_text = 0;
  for (int64_t row = 0; row < rows; ++row) {
    if (listed) check(lists.Append());
    for (int64_t item = 0; item < (column.counts ? column.counts[row] : column.width); ++item) {
      if (column.numbers) {
        check(numbers->Append(column.numbers[row * column.stride + item]));
        continue;
      }
      const TesseraParquetText& text = column.texts[next_text++];
      check(text.data ? texts->Append(std::string_view(text.data, static_cast<size_t>(text.size))) : texts->AppendNull());
    }
  }
  return take(listed ? lists.Finish() : values->Finish());
}

int write(const char* path, const TesseraParquetColumn* columns, int64_t count, int64_t rows, char** error) try {
  constexpr int64_t kRowGroup = 1 << 16;
  std::vector<std::shared_ptr<arrow::Field>> fields;
  std::vector<std::shared_ptr<arrow::Array>> arrays;
  for (int64_t i = 0; i < count; ++i) {
    arrays.push_back(build_column(columns[i], rows));
    fields.push_back(arrow::field(columns[i].name, arrays.back()->type()));
  }
  const auto table = arrow::Table::Make(arrow::schema(fields), arrays, rows);
  const auto file = take(arrow::io::FileOutputStream::Open(path));
  const auto properties = parquet::WriterProperties::Builder().compression(parquet::Compression::SNAPPY)->build();
  check(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), file, kRowGroup, properties));
  check(file->Close());
  return 1;
} catch (const std::exception& e) {
  *error = copy_text(e.what());
  return 0;
}

int64_t group_bytes(const void* group) { return static_cast<const Group*>(group)->bytes; }
void free_group(void* group) { delete static_cast<Group*>(group); }
void free_text(char* text) { std::free(text); }

}  // namespace

extern "C" __attribute__((visibility("default"))) const void* tessera_parquet_api() {
  static const TesseraParquetApi api = {kTesseraParquetVersion,
                                        open_file,
                                        close_file,
                                        row_groups,
                                        rows,
                                        extent,
                                        metadata,
                                        column,
                                        kind,
                                        read_group,
                                        count,
                                        value,
                                        group_bytes,
                                        free_group,
                                        write,
                                        free_text};
  return &api;
}
