#pragma once
// What several writers of one program tell each other.

#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "checkpoint/joint_save.h"

namespace tessera::testing {

// As the coordinator of a run has them.
class KeptWords final : public checkpoint::SaveWords {
 public:
  void put(const std::string& name, const std::string& text) override {
    const std::lock_guard lock(mutex_);
    texts_[name] = text;
  }
  std::optional<std::string> find(const std::string& name) override {
    const std::lock_guard lock(mutex_);
    const auto found = texts_.find(name);
    return found == texts_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::string> texts_;
};

}  // namespace tessera::testing
