#include "checkpoint/formats/safetensors_header.h"

#include <set>

#include "base/error.h"
#include "base/text/json.h"

namespace tessera::checkpoint {
namespace {

struct DTypeName {
  DType dtype;
  std::string_view name;
};

// In ascending order of the format's own library.
constexpr std::array<DTypeName, 13> kDTypes{{{DType::kBool, "BOOL"},
                                             {DType::kU8, "U8"},
                                             {DType::kI8, "I8"},
                                             {DType::kI16, "I16"},
                                             {DType::kU16, "U16"},
                                             {DType::kF16, "F16"},
                                             {DType::kBF16, "BF16"},
                                             {DType::kI32, "I32"},
                                             {DType::kU32, "U32"},
                                             {DType::kF32, "F32"},
                                             {DType::kF64, "F64"},
                                             {DType::kI64, "I64"},
                                             {DType::kU64, "U64"}}};

// Where in the header the parser stands; each level of nesting is one step.
enum class Place { kStart, kTop, kMetadata, kTensor, kShape, kOffsets, kEnd };

class HeaderReader : public JsonEvents {
 public:
  explicit HeaderReader(const std::string& path) : path_(path) {}

  Header take() {
    if (place_ != Place::kEnd) fail("the header is not a JSON object");
    return std::move(header_);
  }

  bool start_object(std::size_t) override {
    if (place_ == Place::kStart) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop && key_ == "__metadata__") {
      place_ = Place::kMetadata;
    } else if (place_ == Place::kTop) {
      place_ = Place::kTensor;
      entry_ = {key_};
      seen_ = {};
      offsets_ = 0;
    } else {
      unexpected("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTop) {
      place_ = Place::kEnd;
      return true;
    }
    if (place_ == Place::kTensor) {
      for (size_t i = 0; i < kFields.size(); ++i) {
        if (!seen_[i]) fail(fmt::format("`{}` is missing", kFields[i]));
      }
      header_.entries.push_back(std::move(entry_));
    }
    place_ = Place::kTop;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ != Place::kTensor || key_ == "dtype") unexpected("a list");
    place_ = key_ == "shape" ? Place::kShape : Place::kOffsets;
    return true;
  }

  bool end_array() override {
    if (place_ == Place::kOffsets && offsets_ != 2) fail("`data_offsets` must be two numbers");
    place_ = Place::kTensor;
    return true;
  }

  bool key(string_t& text) override {
    if (place_ == Place::kTop) {
      name_ = text;
      if (!names_.insert(text).second) fail("the name is given twice");
    } else if (place_ == Place::kMetadata) {
      if (header_.metadata.contains(text)) fail(fmt::format("`{}` is given twice", text));
    } else {
      const auto field = std::find(kFields.begin(), kFields.end(), text);
      if (field == kFields.end()) fail(fmt::format("unknown field `{}`", text));
      bool& seen = seen_[static_cast<size_t>(field - kFields.begin())];
      if (seen) fail(fmt::format("`{}` is given twice", text));
      seen = true;
    }
    key_ = text;
    return true;
  }

  bool string(string_t& text) override {
    if (place_ == Place::kMetadata) {
      header_.metadata[key_] = text;
    } else if (place_ == Place::kTensor && key_ == "dtype") {
      const auto dtype = parse_safetensors_dtype(text);
      if (!dtype) fail(fmt::format("the dtype `{}` is not supported", text));
      entry_.type.dtype = *dtype;
    } else {
      unexpected("a string");
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (place_ == Place::kShape) {
      if (value > static_cast<uint64_t>(INT64_MAX)) fail("a dimension is too large");
      if (entry_.type.dims.size() == kMaxSafetensorsRank) fail(fmt::format("more than {} dimensions", kMaxSafetensorsRank));
      entry_.type.dims.push_back(static_cast<int64_t>(value));
    } else if (place_ == Place::kOffsets) {
      if (offsets_ == 2) fail("`data_offsets` must be two numbers");
      (offsets_++ == 0 ? entry_.begin : entry_.end) = value;
    } else {
      unexpected("a number");
    }
    return true;
  }

  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a number with a fraction"); }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }

  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    throw data_error(fmt::format("`{}` is damaged: its header is not JSON at byte {}", path_, position + 8));
  }

 private:
  static constexpr std::array<std::string_view, 3> kFields{"dtype", "shape", "data_offsets"};

  [[noreturn]] void fail(const std::string& what) const {
    throw data_error(fmt::format("`{}` is not a valid safetensors file: {}", path_, what),
                     name_.empty() ? std::string() : fmt::format("array `{}`", name_));
  }
  [[noreturn]] bool unexpected(std::string_view what) const { fail(fmt::format("{} stands where it must not", what)); }

  std::string path_;
  Header header_;
  Place place_ = Place::kStart;
  std::string name_;  // of the array
  std::string key_;   // the last key read, at any depth
  HeaderEntry entry_;
  std::array<bool, 3> seen_{};
  int offsets_ = 0;
  std::set<std::string> names_;
};

}  // namespace

Header parse_header(std::string_view text, const std::string& path) {
  HeaderReader reader(path);
  read_json_events(text, reader);
  return reader.take();
}

std::string_view safetensors_dtype(DType dtype) {
  for (const DTypeName& row : kDTypes) {
    if (row.dtype == dtype) return row.name;
  }
  return {};
}

std::optional<DType> parse_safetensors_dtype(std::string_view name) {
  for (const DTypeName& row : kDTypes) {
    if (row.name == name) return row.dtype;
  }
  return std::nullopt;
}

int safetensors_rank(DType dtype) {
  int rank = 0;
  while (kDTypes[static_cast<size_t>(rank)].dtype != dtype) ++rank;
  return rank;
}

}  // namespace tessera::checkpoint
