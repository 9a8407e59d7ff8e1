#pragma once
// What it costs to read a bucket: nothing from a machine of its region, a lot of money from elsewhere.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tessera::store {

// A region of a cloud.
struct CloudRegion {
  std::string provider;  // "gcp" or "aws"
  std::string region;    // "us-central1", "eu-west-1"; of a bucket also "us" or "nam4", which lies in several
  std::string text() const { return provider + ":" + region; }
  bool operator==(const CloudRegion&) const = default;
};

// "gcp:us-central1"; nothing for other texts.
std::optional<CloudRegion> parse_region(std::string_view text);

// $TESSERA_MACHINE_REGION as parse_region() has it, else what the metadata server of Google's or Amazon's cloud says, which is asked
// where the firmware names that cloud, or where $GCE_METADATA_HOST or $AWS_EC2_METADATA_SERVICE_ENDPOINT is set. Asked once a
// process. Throws a usage Error for a variable of another form.
const std::optional<CloudRegion>& machine_region();

// Where the bucket of a gs:// or s3:// address lies, asked once a bucket; nothing where its server does not tell. Servers that are
// not the clouds' own ($STORAGE_EMULATOR_HOST, $AWS_ENDPOINT_URL) are asked where $TESSERA_MACHINE_REGION is set.
std::optional<CloudRegion> bucket_region(const std::string& url);

// Dollars for 10^9 bytes from a bucket to a machine, by the clouds' list prices, which differ by volume and contract: an estimate.
// 0 within a region.
double egress_price(const CloudRegion& bucket, const CloudRegion& machine);
// Whether the bucket lies in several regions, on the continent of the machine.
bool spans(const CloudRegion& bucket, const CloudRegion& machine);

// The price of reading a bucket from another region.
struct Egress {
  CloudRegion bucket, machine;
  double dollars_a_gigabyte = 0;
  double dollars(int64_t bytes) const { return dollars_a_gigabyte * static_cast<double>(bytes) * 1e-9; }
};
// Nothing within a region, and where one of the two is not known.
std::optional<Egress> egress_of(const std::string& url);

// For --allow-egress; before any thread reads it.
void allow_egress();
// A usage Error at `where` with the places and the dollars for reading `bytes` once, where reading costs something and
// allow_egress() was not called. A note instead where it was, and where spans(). Once a bucket.
void expect_egress_allowed(const std::string& url, int64_t bytes, const std::string& where);

}  // namespace tessera::store
