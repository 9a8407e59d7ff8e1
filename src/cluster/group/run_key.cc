#include "cluster/group/run_key.h"

#include <fmt/format.h>
#include <openssl/bio.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509v3.h>

#include <algorithm>
#include <array>
#include <fstream>
#include <iterator>
#include <memory>

#include "base/error.h"
#include "http/client.h"

namespace tessera::group {
namespace {

constexpr long kDay = 24 * 60 * 60;
constexpr const char* kFlag = "--coordinator-key";

template <auto free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};
using PrivateKey = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Extension = std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>>;

// OpenSSL says with a null pointer or 0 that it could not do something.
void check(bool good) {
  if (good) return;
  std::array<char, 256> reason{};
  ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
  throw device_error(fmt::format("no key is made for the run: {}", reason.data()));
}

void add_extension(X509* certificate, int id, const char* value) {
  const Extension extension(X509V3_EXT_conf_nid(nullptr, nullptr, id, value));
  check(extension && X509_add_ext(certificate, extension.get(), -1) == 1);
}

// For servers and for clients, which are one another's authority too.
Certificate self_signed(EVP_PKEY* key) {
  Certificate certificate(X509_new());
  check(certificate != nullptr);
  X509* x = certificate.get();
  uint32_t serial = 0;
  check(RAND_bytes(reinterpret_cast<unsigned char*>(&serial), sizeof serial) == 1);
  X509_NAME* name = X509_get_subject_name(x);
  const auto* text = reinterpret_cast<const unsigned char*>("tessera");
  check(X509_set_version(x, X509_VERSION_3) == 1 && ASN1_INTEGER_set_uint64(X509_get_serialNumber(x), serial | 1u) == 1 &&
        X509_gmtime_adj(X509_getm_notBefore(x), -kDay) && X509_gmtime_adj(X509_getm_notAfter(x), 365 * kDay) &&
        X509_set_pubkey(x, key) == 1 && X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC, text, -1, -1, 0) == 1 &&
        X509_set_issuer_name(x, name) == 1);
  add_extension(x, NID_basic_constraints, "critical,CA:TRUE");
  add_extension(x, NID_ext_key_usage, "serverAuth,clientAuth");
  add_extension(x, NID_subject_alt_name, "DNS:tessera");
  check(X509_sign(x, key, EVP_sha256()) > 0);
  return certificate;
}

}  // namespace

std::string new_run_key() {
  const PrivateKey key(EVP_EC_gen("P-256"));
  check(key != nullptr);
  const Certificate certificate = self_signed(key.get());
  const std::unique_ptr<BIO, Freed<BIO_free_all>> text(BIO_new(BIO_s_mem()));
  check(text && PEM_write_bio_PrivateKey(text.get(), key.get(), nullptr, nullptr, 0, nullptr, nullptr) == 1 &&
        PEM_write_bio_X509(text.get(), certificate.get()) == 1);
  char* data = nullptr;
  const long size = BIO_get_mem_data(text.get(), &data);
  return {data, static_cast<size_t>(size)};
}

std::string certificate_of(const std::string& key) {
  return key.substr(std::min(key.find("-----BEGIN CERTIFICATE"), key.size()));
}

void refuse_key_alone(const std::string& key, const std::string& address) {
  if (key.empty() || !address.empty()) return;
  throw usage_error(
      "it is the key of an etcd, and nothing says which", kFlag,
      "name the etcd with --coordinator-address HOST:PORT, or leave the key out: an etcd that tessera launch starts "
      "has one of its own");
}

std::string read_run_key(const std::string& text) {
  if (text.empty()) return text;
  std::string key = text;
  const bool is_file = !text.starts_with("-----BEGIN");
  if (is_file) {
    std::ifstream file(text, std::ios::binary);
    if (!file) throw usage_error(fmt::format("cannot read `{}`", text), kFlag);
    key.assign(std::istreambuf_iterator<char>(file), {});
  }
  if (!http::is_key(key)) {
    throw usage_error(fmt::format("{} holds no private key with its certificate, in PEM", is_file ? "`" + text + "`" : "it"),
                      kFlag, "make one: tessera launch key > FILE");
  }
  return key;
}

}  // namespace tessera::group
