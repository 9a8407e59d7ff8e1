#pragma once
// Structs of attributes (base/visit.h) as a call carries them: the side that emits the call writes the struct, the kernel reads
// the same one (host/call.h). Fields: bool, int64_t, double, and enumerations, which travel as i64.

#include <cstdint>
#include <type_traits>

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

// Of a call that has none.
struct NoAttributes {
  template <class Visitor>
  void visit(Visitor&&) {}
};

}  // namespace tessera::ir
