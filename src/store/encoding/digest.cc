#include "store/encoding/digest.h"

#include <fmt/core.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <sys/random.h>

#include <cerrno>
#include <vector>

#include "base/error.h"

namespace tessera::store {

namespace {

struct Hashing {
  EVP_MD_CTX* context = EVP_MD_CTX_new();

  explicit Hashing(const EVP_MD* algorithm) {
    TESSERA_CHECK(context != nullptr && EVP_DigestInit_ex(context, algorithm, nullptr) == 1);
  }
  ~Hashing() { EVP_MD_CTX_free(context); }
  Hashing(const Hashing&) = delete;
  Hashing& operator=(const Hashing&) = delete;

  void add(const void* bytes, size_t size) { TESSERA_CHECK(EVP_DigestUpdate(context, bytes, size) == 1); }
  void finish(std::span<std::byte> out) {
    unsigned size = 0;
    TESSERA_CHECK(EVP_DigestFinal_ex(context, reinterpret_cast<unsigned char*>(out.data()), &size) == 1 && size == out.size());
  }
};

}  // namespace

struct Sha256::State : Hashing {
  State() : Hashing(EVP_sha256()) {}
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}

Sha256::~Sha256() = default;

Sha256& Sha256::add(std::span<const std::byte> bytes) {
  state_->add(bytes.data(), bytes.size());
  return *this;
}

Digest Sha256::finish() {
  Digest digest;
  state_->finish(digest);
  return digest;
}

struct Md5::State : Hashing {
  State() : Hashing(EVP_md5()) {}
};

Md5::Md5() : state_(std::make_unique<State>()) {}

Md5::~Md5() = default;

Md5& Md5::add(std::span<const std::byte> bytes) {
  state_->add(bytes.data(), bytes.size());
  return *this;
}

std::array<std::byte, 16> Md5::finish() {
  std::array<std::byte, 16> hash;
  state_->finish(hash);
  return hash;
}

std::array<std::byte, 20> sha1(std::initializer_list<std::string_view> parts) {
  Hashing state(EVP_sha1());
  for (const std::string_view part : parts) state.add(part.data(), part.size());
  std::array<std::byte, 20> hash;
  state.finish(hash);
  return hash;
}

Digest hmac_sha256(std::span<const std::byte> key, std::initializer_list<std::string_view> parts) {
  EVP_PKEY* secret = EVP_PKEY_new_mac_key(EVP_PKEY_HMAC, nullptr, reinterpret_cast<const unsigned char*>(key.data()),
                                          static_cast<int>(key.size()));
  EVP_MD_CTX* context = EVP_MD_CTX_new();
  bool done =
      secret != nullptr && context != nullptr && EVP_DigestSignInit(context, nullptr, EVP_sha256(), nullptr, secret) == 1;
  for (const std::string_view part : parts) done = done && EVP_DigestSignUpdate(context, part.data(), part.size()) == 1;
  Digest digest;
  size_t size = digest.size();
  done = done && EVP_DigestSignFinal(context, reinterpret_cast<unsigned char*>(digest.data()), &size) == 1;
  EVP_MD_CTX_free(context);
  EVP_PKEY_free(secret);
  TESSERA_CHECK(done && size == digest.size());
  return digest;
}

std::string to_hex(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) text += fmt::format("{:02x}", std::to_integer<int>(byte));
  return text;
}

bool same_digest(std::span<const std::byte> a, std::span<const std::byte> b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

void fill_random(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t count = getrandom(out.data(), out.size(), 0);
    TESSERA_CHECK(count > 0 || errno == EINTR, "getrandom: errno {}", errno);
    if (count > 0) out = out.subspan(static_cast<size_t>(count));
  }
}

std::string random_hex(size_t bytes) {
  std::vector<std::byte> random(bytes);
  fill_random(random);
  return to_hex(random);
}

}  // namespace tessera::store
