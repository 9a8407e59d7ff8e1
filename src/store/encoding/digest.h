#pragma once
// Hashes of bytes, and a seal (HMAC-SHA256) that only the holder of a key can make. libcrypto does the work.

#include <array>
#include <cstddef>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace tessera::store {

using Digest = std::array<std::byte, 32>;

// Hashes bytes as they come.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  Sha256& add(std::span<const std::byte> bytes);
  // Once.
  Digest finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// The same for MD5: no protection against anybody, but what public data sets name their archives' bytes by.
class Md5 {
 public:
  Md5();
  ~Md5();
  Md5(const Md5&) = delete;
  Md5& operator=(const Md5&) = delete;
  Md5& add(std::span<const std::byte> bytes);
  // Once.
  std::array<std::byte, 16> finish();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Of the parts end to end.
Digest hmac_sha256(std::span<const std::byte> key, std::initializer_list<std::string_view> parts);

// SHA-1 of the parts end to end: no protection against anybody, but what git names its files by.
std::array<std::byte, 20> sha1(std::initializer_list<std::string_view> parts);

// Two lower-case hexadecimal digits for each byte: 64 of a digest.
std::string to_hex(std::span<const std::byte> bytes);

// Takes the same time wherever they differ, so that it tells nobody how much of a forged one was right.
bool same_digest(std::span<const std::byte> a, std::span<const std::byte> b);

// `out` filled with what nobody can foretell.
void fill_random(std::span<std::byte> out);
// So many random bytes as to_hex() writes them: a token.
std::string random_hex(size_t bytes);

}  // namespace tessera::store
