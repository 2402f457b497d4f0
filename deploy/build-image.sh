#!/usr/bin/env bash
# Builds the root file system of the container image into a folder: build-image.sh OUTPUT.
#
# The one place that knows how: deploy/Dockerfile runs it, and .ci/image runs it and starts what it has made. Needs Rust;
# installs what else is missing, as root on Debian.
#
#   PROFILE            the Cargo profile, dist unless given
#   CARGO_TARGET_DIR   as Cargo has it
set -euo pipefail
umask 022
[ $# = 1 ] || { echo "usage: $0 OUTPUT" >&2; exit 2; }
output=$1
cd "$(dirname "$0")/.."
profile=${PROFILE:-dist}
target=${CARGO_TARGET_DIR:-target}

retry() { local n; for n in 1 2 3; do "$@" && return 0; sleep $((n * 5)); done; return 1; }

# Pingora's compression library is C and built with cmake; the certificates go into the image.
missing=()
command -v cc >/dev/null || missing+=(gcc libc6-dev)
command -v make >/dev/null || missing+=(make)
command -v cmake >/dev/null || missing+=(cmake)
[ -f /etc/ssl/certs/ca-certificates.crt ] || missing+=(ca-certificates)
if [ ${#missing[@]} -gt 0 ]; then
  retry apt-get update -qq
  retry apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

retry cargo fetch --locked
# Without default features there is no `spillway demo`, and no simulator in the binary.
cargo build --locked --profile "$profile" -p spillway --no-default-features

bin=$output/usr/local/bin/spillway
mkdir -p "$output"/{usr/local/bin,usr/share/doc/spillway,etc/ssl/certs,etc/spillway,var/lib/dpkg/status.d}
strip -o "$bin" "$target/$profile/spillway"
chmod 0755 "$bin"
install -m 0644 LICENSE "$output/usr/share/doc/spillway/LICENSE"
install -m 0644 /etc/ssl/certs/ca-certificates.crt "$output/etc/ssl/certs/"
# A name for the number that runs it, and the order in which names of hosts are looked up.
echo 'spillway:x:65532:65532::/:/sbin/nologin' >"$output/etc/passwd"
echo 'spillway:x:65532:' >"$output/etc/group"
echo 'hosts: files dns' >"$output/etc/nsswitch.conf"
install -m 0644 /etc/os-release "$output/etc/os-release"

# The loader and the libraries that the binary names, each where it looks for them, and what is installed of each package
# in the form that scanners read.
ldd "$bin" | grep -o '/[^ ]*' | while read -r library; do
  install -D -m 0755 "$library" "$output$library"
  package=$(dpkg -S "*/$(basename "$(dirname "$library")")/$(basename "$library")" | head -1 | cut -d: -f1)
  dpkg -s "$package" >"$output/var/lib/dpkg/status.d/$package"
done
dpkg -s ca-certificates >"$output/var/lib/dpkg/status.d/ca-certificates"
