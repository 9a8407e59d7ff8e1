#pragma once
// Arrays between the processes of a run, where the plugin has no collectives of its own: the CPU plugin. Over Gloo's TCP
// connections, in a module that is loaded when it is used.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "cluster/group/members.h"

namespace tessera::group {

struct ExchangeOptions {
  // A process waits so long for another one's part of an array. A process that is gone is known much sooner (Members).
  std::chrono::milliseconds patience = std::chrono::minutes(30);
};

// Calls may be under way at once, from any threads, on a channel each: calls on one channel come one after the other, in the same
// order in every process. All throw an Error (cluster/group/members.h, transient_error): another process has ended, cannot be
// reached, or does not answer.
class Exchange {
 public:
  virtual ~Exchange() = default;

  virtual int64_t count() const = 0;  // of processes

  // out = the sum of all processes' `in`, added up in pairs in the order of their ids (cluster/group/pairwise_sum.h), so that every
  // process has the same bytes. `out` may be `in`.
  virtual void sum(std::span<const float> in, std::span<float> out, uint32_t channel) = 0;
  // out = all processes' `in`, one after the other. `out` does not overlap `in`.
  virtual void gather(std::span<const std::byte> in, std::span<std::byte> out, uint32_t channel) = 0;
  // What process `from` has in `bytes`, into those of all others.
  virtual void broadcast(std::span<std::byte> bytes, int64_t from, uint32_t channel) = 0;
};

class GlooExchange final : public Exchange {
 public:
  // Connects to all others. `members` is used here only.
  explicit GlooExchange(Members& members, const std::string& coordinator, const ExchangeOptions& options = {});
  ~GlooExchange() override;
  GlooExchange(const GlooExchange&) = delete;
  GlooExchange& operator=(const GlooExchange&) = delete;

  int64_t process_id() const { return process_id_; }
  // Whether a call has failed. Programs that made it fail as the plugin says it, with another text and code.
  bool broken() const;
  // Seconds that this process spent in the first transfers of sum() and gather(), by its own clock: until all others have come to
  // the call, and their bytes to this process. Calls at the same time count once. The process that is always last has the least.
  double waited_for_others() const;
  int64_t count() const override { return count_; }

  void sum(std::span<const float> in, std::span<float> out, uint32_t channel) override;
  void gather(std::span<const std::byte> in, std::span<std::byte> out, uint32_t channel) override;
  void broadcast(std::span<std::byte> bytes, int64_t from, uint32_t channel) override;

 private:
  struct Connections;
  uint64_t next_slot(uint32_t channel);

  int64_t process_id_, count_;
  std::unique_ptr<Connections> connections_;
};

}  // namespace tessera::group
