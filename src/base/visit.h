#pragma once
// Struct visiting: name a field once, and reading, checking, printing and documenting it all follow.
//
//   struct AdamWOptions {
//     double b1 = 0.9;
//     template <class Visitor> void visit(Visitor&& field) { field("b1", b1, "decay of the first moment"); }
//   };
//
// A visitor is called as field(name, reference, help). Field types: bool, int64_t, double, std::string, std::vector of these,
// std::optional of these, and structs that have visit() themselves.

#include <concepts>

namespace tessera {
namespace detail {
struct AnyVisitor {
  template <class T>
  void operator()(const char*, T&, const char*) const {}
};
}  // namespace detail

template <class T>
concept Visitable = requires(T& t) {
  t.visit(detail::AnyVisitor{});
};

}  // namespace tessera
