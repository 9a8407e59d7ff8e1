#include "pjrt/program/c_arguments.h"

namespace tessera::pjrt {
namespace {

PJRT_NamedValue named_value(const std::string& name, const OptionValue& value) {
  PJRT_NamedValue out{.struct_size = PJRT_NamedValue_STRUCT_SIZE, .name = name.data(), .name_size = name.size()};
  out.value_size = 1;
  if (const auto* flag = std::get_if<bool>(&value)) {
    out.type = PJRT_NamedValue_kBool;
    out.bool_value = *flag;
  } else if (const auto* integer = std::get_if<int64_t>(&value)) {
    out.type = PJRT_NamedValue_kInt64;
    out.int64_value = *integer;
  } else if (const auto* real = std::get_if<double>(&value)) {
    out.type = PJRT_NamedValue_kFloat;
    out.float_value = static_cast<float>(*real);
  } else if (const auto* list = std::get_if<std::vector<int64_t>>(&value)) {
    out.type = PJRT_NamedValue_kInt64List;
    out.int64_array_value = list->data();
    out.value_size = list->size();
  } else {
    const auto& text = std::get<std::string>(value);
    out.type = PJRT_NamedValue_kString;
    out.string_value = text.data();
    out.value_size = text.size();
  }
  return out;
}

}  // namespace

std::vector<PJRT_NamedValue> named_values(const Options& options) {
  std::vector<PJRT_NamedValue> values;
  for (const auto& [name, value] : options) values.push_back(named_value(name, value));
  return values;
}

PJRT_Program mlir_program(std::string_view stablehlo) {
  // `code` is not const because other calls write to it; compiling reads.
  return {.struct_size = PJRT_Program_STRUCT_SIZE,
          .code = const_cast<char*>(stablehlo.data()),
          .code_size = stablehlo.size(),
          .format = "mlir",
          .format_size = 4};
}

}  // namespace tessera::pjrt
