#pragma once
// What MLflow takes as names and texts (mlflow/utils/validation.py).

#include <cstddef>
#include <string>

namespace tessera::monitor {

inline constexpr size_t kMlflowKey = 250, kMlflowParam = 6000, kMlflowTag = 8000;  // characters

// As the key of a metric or parameter: '@' becomes "_at_", everything else but letters, digits and "_-. :/" becomes '_', and so do
// parts between slashes that are empty, "." or "..". At most kMlflowKey bytes.
std::string mlflow_key(const std::string& name);

// The beginning of `text`, at most `bytes` of it, which does not end within a character.
std::string mlflow_text(const std::string& text, size_t bytes);

}  // namespace tessera::monitor
