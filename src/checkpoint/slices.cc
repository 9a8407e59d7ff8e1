#include "checkpoint/slices.h"

#include <charconv>

#include "base/error.h"
#include "base/text/json.h"
#include "base/text/text.h"
#include "checkpoint/formats/safetensors.h"

namespace tessera::checkpoint {
namespace {

class ShapesReader : public JsonEvents {
 public:
  explicit ShapesReader(const std::string& path) : path_(path) {}
  Shapes take() { return std::move(shapes_); }

  bool start_object(std::size_t) override { return depth_ == 0 ? enter() : unexpected("an object"); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return depth_ == 1 ? enter() : unexpected("a list"); }
  bool end_array() override { return leave(); }

  bool key(string_t& text) override {
    const auto [place, is_new] = shapes_.try_emplace(text);
    if (!is_new) fail(fmt::format("`{}` is given twice", text));
    dims_ = &place->second;
    return true;
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (depth_ != 2) unexpected("a number");
    if (value > static_cast<uint64_t>(INT64_MAX)) fail("a dimension is too large");
    if (dims_->size() == kMaxSafetensorsRank) fail(fmt::format("more than {} dimensions", kMaxSafetensorsRank));
    dims_->push_back(static_cast<int64_t>(value));
    return true;
  }

  bool number_integer(number_integer_t) override { return unexpected("a negative number"); }
  bool number_float(number_float_t, const string_t&) override { return unexpected("a number with a fraction"); }
  bool string(string_t&) override { return unexpected("a string"); }
  bool null() override { return unexpected("null"); }
  bool boolean(bool) override { return unexpected("true or false"); }
  bool binary(binary_t&) override { return unexpected("binary data"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    fail(fmt::format("not JSON at byte {}", position));
  }

 private:
  bool enter() { return ++depth_, true; }
  bool leave() { return --depth_, true; }
  [[noreturn]] void fail(const std::string& what) const {
    throw data_error(fmt::format("`{}` is damaged: the metadata `{}`: {}", path_, kShapesKey, what));
  }
  [[noreturn]] bool unexpected(std::string_view what) const { fail(fmt::format("{} stands where it must not", what)); }

  std::string path_;
  Shapes shapes_;
  Dims* dims_ = nullptr;  // of the last key
  int depth_ = 0;         // 1: in the object, 2: in a list
};

std::optional<int64_t> parse_number(std::string_view text) {
  int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string slice_name(std::string_view array, const Dims& offset) {
  std::string text = fmt::format("{}{}", array, kSliceMark);
  for (size_t i = 0; i < offset.size(); ++i) text += fmt::format("{}{}", i ? "," : "", offset[i]);
  return text;
}

std::optional<SliceName> parse_slice_name(std::string_view text) {
  const size_t mark = text.rfind(kSliceMark);
  if (mark == std::string_view::npos) return std::nullopt;
  SliceName name{std::string(text.substr(0, mark)), {}};
  std::string_view rest = text.substr(mark + 1);
  while (!rest.empty()) {
    const size_t comma = rest.find(',');
    const auto number = parse_number(rest.substr(0, comma));
    if (!number || *number < 0 || name.offset.size() == kMaxSafetensorsRank) return std::nullopt;
    name.offset.push_back(*number);
    rest = comma == std::string_view::npos ? std::string_view{} : rest.substr(comma + 1);
  }
  // One spelling only: a slice under two names would escape the check that names are unique.
  if (slice_name(name.array, name.offset) != text) return std::nullopt;
  return name;
}

std::string shapes_text(const Shapes& shapes) { return nlohmann::json(shapes).dump(); }

Shapes parse_shapes(std::string_view text, const std::string& path) {
  ShapesReader reader(path);
  read_json_events(text, reader);
  return reader.take();
}

}  // namespace tessera::checkpoint
