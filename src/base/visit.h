#pragma once
// Struct visiting: name a field once, and reading, checking, printing and documenting it all follow.
//
//   struct AdamWOptions {
//     double b1 = 0.9;
//     template <class Visitor> void visit(Visitor&& field) { field("b1", b1, "decay of the first moment"); }
//   };
//
// A visitor is called as field(name, reference, FieldHelp). Field types: bool, int64_t, double, std::string, std::vector of
// these, config::NumbersOrText, std::optional of these, and structs that have visit() themselves.

#include <concepts>

namespace tessera {

// What is said of a field.
struct FieldHelp {
  constexpr FieldHelp(const char* text_, bool may_change_ = false) : text(text_), may_change(may_change_) {}
  const char* text;
  bool may_change;  // a run may go on with another value (recipe/keys.h)
};
constexpr FieldHelp may_change(const char* text) { return {text, true}; }

namespace detail {
struct AnyVisitor {
  template <class T>
  void operator()(const char*, T&, FieldHelp) const {}
};
}  // namespace detail

template <class T>
concept Visitable = requires(T& t) {
  t.visit(detail::AnyVisitor{});
};

}  // namespace tessera
