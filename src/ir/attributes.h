#pragma once
// Structs of attributes (base/visit.h) as a call carries them: the side that emits the call writes the struct, the kernel reads
// the same one (host/call.h). Fields: bool, int64_t, double, and enumerations, which travel as i64.

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <type_traits>
#include <variant>

#include "base/error.h"
#include "base/visit.h"
#include "ir/graph.h"

namespace tessera::ir {

template <class T>
AttrDict encode(T attributes) {
  AttrDict dict;
  attributes.visit([&](const char* name, auto& field, FieldHelp) {
    using Field = std::remove_reference_t<decltype(field)>;
    if constexpr (std::is_enum_v<Field>) {
      dict.fields.emplace_back(name, static_cast<int64_t>(field));
    } else {
      dict.fields.emplace_back(name, field);
    }
  });
  return dict;
}

// The struct that encode() wrote, among other fields; each must be there.
template <class T>
T decode(const AttrDict& dict) {
  T out;
  out.visit([&](const char* name, auto& field, FieldHelp) {
    using Field = std::remove_reference_t<decltype(field)>;
    using Travels = std::conditional_t<std::is_enum_v<Field>, int64_t, Field>;
    const auto found = std::ranges::find(dict.fields, name, [](const auto& entry) { return std::string_view(entry.first); });
    TESSERA_CHECK(found != dict.fields.end(), "a call without the attribute {}", name);
    field = static_cast<Field>(std::get<Travels>(found->second));
  });
  return out;
}

// Of a call that has none.
struct NoAttributes {
  template <class Visitor>
  void visit(Visitor&&) {}
};

}  // namespace tessera::ir
